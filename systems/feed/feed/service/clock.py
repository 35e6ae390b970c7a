"""An event loop that knows when it last came back from waiting: what resumes later has waited for the loop."""

from __future__ import annotations

import asyncio
import selectors
import time
from weakref import WeakKeyDictionary

# selectors gives it as a tuple of (key, events).
_Ready = list[tuple[selectors.SelectorKey, int]]


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
        self.ready_before_ns = self.ready_after_ns = self._began_ns = self._after_ns = time.monotonic_ns()

    def select(self, timeout: float | None = None) -> _Ready:
        """As the system's."""
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
    """A loop on a TimedSelector, which `selector_of` finds again."""
    selector = TimedSelector()
    loop = asyncio.SelectorEventLoop(selector)
    _selectors[loop] = selector
    return loop


def selector_of(loop: asyncio.AbstractEventLoop) -> TimedSelector | None:
    """The selector of a timed loop; None for any other loop, where waits cannot be told from I/O."""
    return _selectors.get(loop)


_selectors: WeakKeyDictionary[asyncio.AbstractEventLoop, TimedSelector] = WeakKeyDictionary()
