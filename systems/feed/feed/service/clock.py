"""An event loop that knows when it last came back from waiting: what resumes later has waited for the loop."""

from __future__ import annotations

import asyncio
import selectors
import time
from bisect import bisect_left
from typing import Final
from weakref import WeakKeyDictionary

from .counted import CountingLoop

# selectors gives it as a tuple of (key, events).
_Ready = list[tuple[selectors.SelectorKey, int]]


# Upper bounds of the classes of rounds: 10 us to 100 s, eight to a doubling.
_BOUNDS_NS: Final = [round(10_000 * 2 ** (step / 8)) for step in range(8 * 24)]


class Rounds:
    """How long the rounds of a loop were, as a histogram: for so long it looks at nothing that arrives."""

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS_NS) + 1)
        self._sums_ns = [0] * (len(_BOUNDS_NS) + 1)

    def took(self, round_ns: int) -> None:
        """One round; 0.3 us."""
        place = bisect_left(_BOUNDS_NS, round_ns)
        self._counts[place] += 1
        self._sums_ns[place] += round_ns

    def rows(self) -> list[tuple[int, int, int]]:
        """(class, rounds, ns of them all) of every class that has some; `loop_lag_ms` reads them."""
        rows = zip(range(len(self._counts)), self._counts, self._sums_ns, strict=True)
        return [row for row in rows if row[1]]


class TimedSelector(selectors.DefaultSelector):
    """The system's selector, with bounds on when that became ready which the loop resumes now, CLOCK_MONOTONIC ns.

    A round of the loop is one return of `select` and what is run until the next. What arrives in one round resumes its
    coroutine in the next one (a future's callbacks are called soon, never at once). So what resumes now was ready when
    the *last* round began, at `ready_before_ns`: its wait is at least from then to now. And it became ready after the
    round before that had begun, or while the last `select` slept: at `ready_after_ns` or later, unless it was asked for
    only then.
    """

    def __init__(self) -> None:
        super().__init__()
        self.rounds = Rounds()
        self.ready_before_ns = self.ready_after_ns = self._began_ns = self._after_ns = time.monotonic_ns()

    def select(self, timeout: float | None = None) -> _Ready:
        """As the system's."""
        self.rounds.took(time.monotonic_ns() - self._began_ns)
        # Asked without waiting first (1 us more): only so is it certain that nothing was ready before a sleep.
        ready = super().select(0)
        slept = not ready and (timeout is None or timeout > 0)
        if slept:
            ready = super().select(timeout)
        self.ready_before_ns, self.ready_after_ns = self._began_ns, self._after_ns
        before_ns, self._began_ns = self._began_ns, time.monotonic_ns()
        self._after_ns = self._began_ns if slept else before_ns
        return ready


def timed_loop() -> asyncio.SelectorEventLoop:
    """A loop on a TimedSelector, which `selector_of` finds again; stages know what it does for them."""
    selector = TimedSelector()
    loop = CountingLoop(selector)
    _selectors[loop] = selector
    return loop


def selector_of(loop: asyncio.AbstractEventLoop) -> TimedSelector | None:
    """The selector of a timed loop; None for any other loop, where waits cannot be told from I/O."""
    return _selectors.get(loop)


_selectors: WeakKeyDictionary[asyncio.AbstractEventLoop, TimedSelector] = WeakKeyDictionary()
