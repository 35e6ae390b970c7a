"""An event loop that knows when it last came back from waiting: what resumes later than that has waited for the loop."""

from __future__ import annotations

import asyncio
import selectors
import time

# selectors gives it as a tuple of (key, events).
_Ready = list[tuple[selectors.SelectorKey, int]]


class TimedSelector(selectors.DefaultSelector):
    """The system's selector with the times of its last two returns, CLOCK_MONOTONIC ns.

    What a loop resumes at a time t became ready before `returned_ns` (its wait for the loop is at least t - returned_ns), and
    after `returned_before_ns` unless it was asked for later (at most t - returned_before_ns).
    """

    def __init__(self) -> None:
        super().__init__()
        self.returned_ns = time.monotonic_ns()
        self.returned_before_ns = self.returned_ns

    def select(self, timeout: float | None = None) -> _Ready:
        """As the system's."""
        ready = super().select(timeout)
        now_ns = time.monotonic_ns()
        # It has slept: nothing was ready before it returned.
        slept = timeout is None or timeout > 0
        self.returned_before_ns = now_ns if slept else self.returned_ns
        self.returned_ns = now_ns
        return ready


def timed_loop() -> asyncio.SelectorEventLoop:
    """A loop on a TimedSelector, which `selector_of` finds again."""
    selector = TimedSelector()
    loop = asyncio.SelectorEventLoop(selector)
    _selectors[id(loop)] = selector
    return loop


def selector_of(loop: asyncio.AbstractEventLoop) -> TimedSelector | None:
    """The selector of a timed loop; None for any other loop, where waits cannot be told from I/O."""
    return _selectors.get(id(loop))


_selectors: dict[int, TimedSelector] = {}
