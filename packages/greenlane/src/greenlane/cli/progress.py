"""A bar on stderr for what lasts longer than two seconds; where stderr is no terminal, a line for each quarter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from greenlane.cli.output import Output

__all__ = ["Bar", "bar"]

#: What ends sooner needs none.
_AFTER_S: Final = 2.0
#: With the longest stage of the plan a line fits 80 columns.
_WIDTH: Final = 24
#: Between two drawings; where stderr is no terminal a line stands for each quarter.
_REDRAW_S: Final = 0.2
_QUARTERS: Final = 4


class Bar:
    """Call it with the part that is done, 0 to 1, and with the stage that this is a part of, if there are several."""

    def __init__(self, output: Output, what: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._output = output
        self._what = what
        self._terminal = output.err.isatty()
        # Of the whole, and of the stage.
        self._began = self._stage_began = self._drawn = clock_s()
        self._part = 0.0
        self._quarter = 0
        self._shown = False

    def __call__(self, part: float, what: str = "") -> None:
        """Draw, if it is time to. A stage begins with a `what` that differs from the one before, or a lesser part."""
        now = self._clock_s()
        if (what and what != self._what) or part < self._part:
            self._what, self._stage_began, self._quarter = what or self._what, now, 0
        self._part = part
        # A line stays where it was written: a short stage gets none.
        if now - (self._began if self._terminal else self._stage_began) < _AFTER_S:
            return
        if self._terminal and now - self._drawn >= _REDRAW_S:
            self._drawn, self._shown = now, True
            full = round(_WIDTH * part)
            bar = "=" * full + " " * (_WIDTH - full)
            self._output.err.write(f"\r\x1b[K{self._what} [{bar}] {part:4.0%} {self._seconds_left(part, now):>12}")
            self._output.err.flush()
        elif not self._terminal and int(part * _QUARTERS) > self._quarter:
            self._quarter = int(part * _QUARTERS)
            self._output.say(f"{self._what}: {part:.0%}, {self._seconds_left(part, now)}")

    def end(self) -> None:
        """Remove it."""
        if self._shown:
            self._output.err.write("\r\x1b[K")
            self._output.err.flush()

    def _seconds_left(self, part: float, now: float) -> str:
        return f"{(now - self._stage_began) * (1 - part) / part:.0f} s left" if part > 0.02 else ""


@contextmanager
def bar(output: Output, what: str) -> Iterator[Bar]:
    """One that is removed at the end, however that comes."""
    one = Bar(output, what)
    try:
        yield one
    finally:
        one.end()
