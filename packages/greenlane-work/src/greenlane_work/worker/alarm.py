"""What the owner does at a time: limits, retries that are due, breakers that half-open. One timer for all of it."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable

from greenlane_work.worker.owner import Owner

__all__ = ["Alarm", "Entry"]


class Entry:
    """Something to be done at a time."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        """Let it not be done. It stays in the heap until its time: some hundred bytes."""
        self.call = None


class Alarm:
    """Entries by time. Used by the owner of the channel only."""

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._heap: list[tuple[int, int, Entry]] = []
        self._numbers = itertools.count()
        self._set_ns = 0

    def at(self, at_ns: int, call: Callable[[], object]) -> Entry:
        """Call it at this time of the monotonic clock, or soon if that has passed."""
        entry = Entry(call)
        heapq.heappush(self._heap, (at_ns, next(self._numbers), entry))
        self._set()
        return entry

    def _set(self) -> None:
        if self._heap:
            at_ns = self._heap[0][0]
            if not self._set_ns or at_ns < self._set_ns:
                self._set_ns = at_ns
                self._owner.ring(at_ns, self._rung)

    def _rung(self) -> None:
        self._set_ns = 0
        now_ns = time.monotonic_ns()
        while self._heap and self._heap[0][0] <= now_ns:
            entry = heapq.heappop(self._heap)[2]
            if entry.call is not None:
                entry.call()
        self._set()
