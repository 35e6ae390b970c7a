"""The owner of the channel to the broker: the one thread that receives and acknowledges, and what it does when.

Other threads post what they have to tell the broker, and the owner wakes up. `ThreadOwner` is in `threads`, and
`GreenOwner`, a greenlet of its own, in `green`.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

__all__ = ["Alarm", "Call", "Entry", "Owner", "do_all", "nothing"]

Call = Callable[[], object]

_log = logging.getLogger("greenlane.work")


class Owner(Protocol):
    """Does what is posted on the thread of the channel."""

    #: Around what is done in one turn: what it says to the broker is sent together. Set by the step.
    together: Callable[[], AbstractContextManager[object]]
    #: Called behind what was posted: so none of it has to ask what may begin now. Set by the flow.
    after: Call

    def post(self, call: Call) -> None:
        """From any thread: let the owner do it soon. Never blocks."""

    def post_behind(self, call: Call) -> None:
        """Of the owner alone: do it in the next turn, when all that this one has to say to the broker is sent."""

    def wake(self) -> None:
        """From any thread and from a signal's function: let the owner's loop turn."""

    def ring(self, at_ns: int, call: Call) -> None:
        """Of the owner alone: do one thing at a time of the monotonic clock; what was asked before is forgotten."""

    def wait(self, seconds: float) -> None:
        """Of the owner alone: do what is posted, for at most this long, or until something was."""


def do_all(posted: deque[Call], after: Call | None = None) -> None:
    """Do what was posted, and `after` if that was anything. A call that fails does not stop the others."""
    waiting = after if posted else None
    while posted or waiting is not None:
        if posted:
            call = posted.popleft()
        elif waiting is not None:
            call, waiting = waiting, None
        try:
            call()
        except Exception:
            _log.exception("a bug of Greenlane: %r failed", call)


def nothing() -> None:
    """Do nothing: what `Owner.after` is until it is set."""


class Entry:
    """Something to be done at a time."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], object]) -> None:
        self.call: Callable[[], object] | None = call

    def cancel(self) -> None:
        """Let it not be done. It stays in the heap until its time: some hundred bytes."""
        self.call = None


class Alarm:
    """What the owner does at a time: limits, due retries, half-open breakers. One timer for all; for the owner only."""

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
        try:
            while self._heap and self._heap[0][0] <= now_ns:
                entry = heapq.heappop(self._heap)[2]
                if entry.call is not None:
                    entry.call()
        finally:
            self._set()
