"""The deadlines of the requests in progress, and when the front must wake for the next.

No timer thread and no thread per request: the front's poller waits no longer than until the first deadline, and is
woken only by a request whose deadline is sooner than that.
"""

from __future__ import annotations

import heapq
from _thread import allocate_lock
from collections.abc import Callable
from typing import Final

from greenlane.hosts.gunicorn_conn import Claim

__all__ = ["Deadlines"]

# Claims of ended requests stay until their deadline; beyond this many, and when they are most, they are cleared away.
_KEPT: Final = 1024


class Deadlines:
    """Claims in the order of their deadlines. Any thread may `watch`; the rest is the front's.

    Args:
        wake: makes the front's poller return.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._guard = allocate_lock()
        self._heap: list[Claim] = []
        self._wakes_at_ns = 0
        self._clear_at = _KEPT

    def watch(self, claim: Claim) -> None:
        """Give `claim` out at its deadline, unless it is over by then."""
        with self._guard:
            heapq.heappush(self._heap, claim)
            sooner = claim.deadline_ns < self._wakes_at_ns
        if sooner:
            self._wake()

    def first(self, until_ns: int) -> int:
        """When the poller must return, `until_ns` or sooner. It is remembered: what comes later wakes nobody."""
        with self._guard:
            if self._heap and self._heap[0].deadline_ns < until_ns:
                until_ns = self._heap[0].deadline_ns
            self._wakes_at_ns = until_ns
        return until_ns

    def take(self, now_ns: int) -> Claim | None:
        """A claim whose deadline has passed and whose request goes on; None = no more."""
        with self._guard:
            self._clear()
            while self._heap and self._heap[0].deadline_ns <= now_ns:
                claim = heapq.heappop(self._heap)
                if not claim.over:
                    return claim
        return None

    def _clear(self) -> None:
        if len(self._heap) > self._clear_at:
            self._heap = [claim for claim in self._heap if not claim.over]
            heapq.heapify(self._heap)
            self._clear_at = max(_KEPT, 2 * len(self._heap))
