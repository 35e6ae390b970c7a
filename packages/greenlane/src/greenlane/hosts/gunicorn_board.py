"""What the workers of one gunicorn know of each other: who is alive, how busy, and with how much room.

One anonymous shared mapping, made in the arbiter before the first fork. Each worker writes only its own line; a line
carries the pid and a beat, and one whose beat is old does not count: a worker that dies or hangs is forgotten within
`STALE_MS`. Reading and writing take no lock: a figure that is a moment old costs at most a less good choice.
"""

from __future__ import annotations

import mmap
import os
import time
from typing import Final

__all__ = ["AWAY", "Board", "Place", "shared"]

# Lines. A worker's line is its age modulo this; two live workers whose ages are that far apart do not occur in
# practice, and would only blur each other's figures.
LINES: Final = 1024
# A beat older than this is that of a dead or hung worker. Over twice the longest pause between two beats (1 s).
STALE_MS: Final = 2500
# How often the set of live workers is looked up anew.
_LOOK_UP_MS: Final = 250

# Capacity of a worker that does not serve: it boots or drains.
AWAY: Final = -1

_PID, _BEAT, _PROGRESS, _CAPACITY = range(4)
_WORDS: Final = 4


class Board:
    """The shared lines. Make it before forking."""

    def __init__(self) -> None:
        self._cells = memoryview(mmap.mmap(-1, LINES * _WORDS * 8)).cast("q")

    def place(self, age: int) -> Place:
        """The line of the worker with this `age` (gunicorn's number of it, from 1)."""
        return Place(self._cells, age % LINES)


class Place:
    """One worker's line, and its view of the others'."""

    def __init__(self, cells: memoryview, line: int) -> None:
        self._cells = cells
        self._base = line * _WORDS
        self._others: list[int] = []
        self._looked_up_ms = -_LOOK_UP_MS
        # Requests queued or being served; handed to the pool, which alone writes it.
        self.progress = cells[self._base + _PROGRESS : self._base + _PROGRESS + 1]

    def enter(self) -> None:
        """Claim the line for this process. Call after the fork."""
        self.progress[0] = 0
        self._cells[self._base + _CAPACITY] = AWAY
        self.beat()
        self._cells[self._base + _PID] = os.getpid()

    def beat(self) -> None:
        """Show that this worker's front is alive."""
        self._cells[self._base + _BEAT] = _now_ms()

    def show(self, capacity: int) -> None:
        """Show how many requests in progress count as full; 0 = no room just now, AWAY = does not serve."""
        self._cells[self._base + _CAPACITY] = capacity

    def leave(self) -> None:
        """Take this worker off the board."""
        if self._cells[self._base + _PID] == os.getpid():
            self._cells[self._base + _PID] = 0

    def alone(self) -> bool:
        """Whether no other worker serves."""
        return all(self._cells[base + _CAPACITY] == AWAY for base in self._live())

    def least_busy(self) -> int | None:
        """Requests in progress in the least busy other worker that has room; None: no other has room.

        Cost: under 1 µs per live worker; every 250 ms one look at all lines, 20 µs.
        """
        cells = self._cells
        least = None
        for base in self._live():
            progress = cells[base + _PROGRESS]
            if progress < cells[base + _CAPACITY] and (least is None or progress < least):
                least = progress
        return least

    def _live(self) -> list[int]:
        now = _now_ms()
        if now - self._looked_up_ms >= _LOOK_UP_MS:
            self._looked_up_ms = now
            pids = self._cells[_PID::_WORDS].tolist()
            bases = (line * _WORDS for line, pid in enumerate(pids) if pid)
            self._others = [base for base in bases if base != self._base and self._fresh(base, now)]
        return self._others

    def _fresh(self, base: int, now: int) -> bool:
        return now - self._cells[base + _BEAT] <= STALE_MS


_boards: dict[int, Board] = {}


def shared() -> Board:
    """The board of this process's workers; made at the first call. A forked worker must use what it was given."""
    pid = os.getpid()
    if pid not in _boards:
        _boards.clear()  # an arbiter that forked another one: its workers are not ours
        _boards[pid] = Board()
    return _boards[pid]


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
