"""Accepting connections: the worker's listening sockets, and what the workers of one gunicorn know of each other.

A connection is taken at once by a worker that has room and no more requests in progress than any other with room, and
by any worker when none has room. Other workers leave it alone for a moment. That moment is bounded: the better placed
worker may be descheduled, or starved by its own work, and no connection may stay unaccepted because of a figure.

The figures lie on the board: one anonymous shared mapping, made in the arbiter before the first fork. Each worker
writes only its own line. A line carries the pid and a beat, and one whose beat is old does not count: a worker that
dies or hangs is forgotten within `STALE_MS`. Reading and writing take no lock: a figure that is a moment old costs at
most a less good choice.

Source: the idea is Puma's `wait_for_less_busy_worker`, which always waits 5 ms; here only a worker that is not best
placed waits.
"""

from __future__ import annotations

import errno
import mmap
import os
import time
from collections.abc import Callable
from select import EPOLLIN
from typing import Any, Final

from greenlane._native import readable_now
from greenlane.hosts.gunicorn.connection import Conn, Served
from greenlane.hosts.gunicorn.dispatch import Dispatch
from greenlane.hosts.pool import Pool

__all__ = ["AWAY", "Board", "Line", "Listeners", "shared_board"]

# Accepts a turn where no other worker competes for them. Arbitrary: bounds how long a burst keeps kept-alive
# connections waiting.
_BURST: Final = 32
# A worker for which another is better placed looks again after this ...
_YIELD_S: Final = 0.001
# ... and takes the connection after this, when it has room itself or has none.
_PATIENCE_S: Final = 0.005
_PATIENCE_FULL_S: Final = 0.05
# Pause after an accept that failed, most likely for want of descriptors or memory. gthread's worker ends then.
_SHORTAGE_S: Final = 0.2
_CLIENT_GONE: Final = frozenset({errno.ECONNABORTED, errno.EPROTO, errno.EPERM})

# Lines. A worker's line is its age modulo this; two live workers whose ages are that far apart do not occur in
# practice, and would only blur each other's figures.
LINES: Final = 1024
# A beat older than this is that of a dead or hung worker. Over twice the longest pause between two beats (1 s).
STALE_MS: Final = 2500
# How often the set of live workers is looked up again.
_LOOK_UP_MS: Final = 250

# Capacity of a worker that does not serve: it boots or drains.
AWAY: Final = -1

_PID, _BEAT, _PROGRESS, _CAPACITY = range(4)
_WORDS: Final = 4

# (socket, its peer, the listener's address, when) -> whether another connection may come
Welcome = Callable[[Any, Any, Any, int], bool]


class Listeners:
    """The listening sockets of one worker.

    Args:
        worker: has the sockets.
        pool: its requests in progress.
        dispatch: has the poller that watches them.
        line: this worker's line on the board.
        welcome: takes a connection.
    """

    def __init__(self, worker: Served, pool: Pool[Conn], dispatch: Dispatch, line: Line, welcome: Welcome) -> None:
        self._sockets = {each.fileno(): (each, each.getsockname()) for each in worker.sockets}
        self._worker = worker
        self._pool = pool
        self._dispatch = dispatch
        self._line = line
        self._welcome = welcome
        #: Whether the arbiter and other workers hold the same sockets.
        self.shared = not worker.cfg.reuse_port
        self._burst = 1 if worker.cfg.workers > 1 else _BURST
        #: No accept before this; 0 = at once.
        self.paused_until_s = 0.0
        self._yielding_since_s = 0.0

    def __contains__(self, fd: int) -> bool:
        return fd in self._sockets

    def review(self, wanted: bool, now_s: float) -> None:
        """Listen if connections are wanted and no pause is on."""
        wanted = wanted and self.paused_until_s <= now_s
        if wanted != self._dispatch.listening:
            self._listen(wanted)

    def come(self, fd: int, now_ns: int) -> None:
        """Accept who waits at a listening socket, or leave them to another worker for a moment."""
        if not self._dispatch.listening:
            return
        now_s = now_ns / 1e9
        if self.shared and self._yields(now_s):
            self._pause(now_s + _YIELD_S)
        else:
            self._admit(fd, now_ns, self._burst)

    def shut(self, *, let_in: bool) -> None:
        """Close the sockets for good; with `let_in`, after all waiting connections have been accepted, room or not.

        They would be reset when the last process closes the socket. Does nothing the second time.
        """
        if self._dispatch.listening:
            self._listen(False)
        for fd in list(self._sockets):
            if let_in:
                while self._admit(fd, time.monotonic_ns(), _BURST):
                    pass
            listener, _ = self._sockets.pop(fd)
            listener.close()

    def _admit(self, fd: int, now_ns: int, most: int) -> bool:
        """Accept up to `most`; whether there was a connection at all."""
        listener, address = self._sockets[fd]
        for number in range(most):
            if number and not readable_now(fd):
                return True
            try:
                sock, client = listener.accept()
            except BlockingIOError:
                return number > 0
            except OSError as error:
                if error.errno in _CLIENT_GONE:
                    continue
                self._worker.note("accepts_failed")
                self._worker.tell(f"cannot accept connections: {os.strerror(error.errno or 0)}", trace=False)
                self._pause(now_ns / 1e9 + _SHORTAGE_S)
                return False
            if not self._welcome(sock, client, address, now_ns):
                break
        return True

    def _yields(self, now_s: float) -> bool:
        """Whether the connection that waits is better left to another worker."""
        least = self._line.least_busy()
        if least is None:
            return False  # nobody else has room: all accept
        in_progress, full = self._pool.in_progress, self._worker.capacity()
        room = in_progress < full
        if room and in_progress <= least:
            return False
        if now_s - self.paused_until_s > _YIELD_S:  # not the connection that was left alone a moment ago
            self._yielding_since_s = now_s
        return now_s - self._yielding_since_s < (_PATIENCE_S if room else _PATIENCE_FULL_S)

    def _pause(self, until_s: float) -> None:
        self.paused_until_s = until_s
        if self._dispatch.listening:
            self._listen(False)

    def _listen(self, wanted: bool) -> None:
        poller = self._dispatch.poller
        for fd in self._sockets:
            if wanted:
                poller.register(fd, EPOLLIN)
            else:
                poller.unregister(fd)
        self._dispatch.listening = wanted


class Board:
    """The shared lines. Make it before forking."""

    def __init__(self) -> None:
        self._cells = memoryview(mmap.mmap(-1, LINES * _WORDS * 8)).cast("q")

    def line(self, age: int) -> Line:
        """The line of the worker with this `age` (gunicorn's number of it, from 1)."""
        return Line(self._cells, age % LINES)


class Line:
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


def shared_board() -> Board:
    """The board of this process's workers; made at the first call. A forked worker must use what it was given."""
    pid = os.getpid()
    if pid not in _boards:
        _boards.clear()  # an arbiter that forked another one: its workers are not ours
        _boards[pid] = Board()
    return _boards[pid]


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
