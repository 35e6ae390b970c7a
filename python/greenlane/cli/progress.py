"""A bar on stderr for what lasts longer than two seconds."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from greenlane.cli.output import Output

__all__ = ["Bar", "bar"]

#: What ends sooner needs none.
_AFTER_S: Final = 2.0
_WIDTH: Final = 30
#: Between two drawings; where stderr is no terminal a line stands for each quarter.
_REDRAW_S: Final = 0.2
_QUARTERS: Final = 4


class Bar:
    """Call it with the part that is done, 0 to 1."""

    def __init__(self, output: Output, what: str) -> None:
        self._output = output
        self._what = what
        self._terminal = output.err.isatty()
        self._began = self._drawn = time.monotonic()
        self._quarter = 0
        self._shown = False

    def __call__(self, part: float) -> None:
        """Draw, if it is time to."""
        now = time.monotonic()
        if now - self._began < _AFTER_S:
            return
        if self._terminal and now - self._drawn >= _REDRAW_S:
            self._drawn, self._shown = now, True
            full = round(_WIDTH * part)
            bar = "=" * full + " " * (_WIDTH - full)
            self._output.err.write(f"\r{self._what} [{bar}] {part:4.0%} {self._left(part, now):>12}")
            self._output.err.flush()
        elif not self._terminal and int(part * _QUARTERS) > self._quarter:
            self._quarter = int(part * _QUARTERS)
            self._output.say(f"{self._what}: {part:.0%}, {self._left(part, now)}")

    def end(self) -> None:
        """Remove it."""
        if self._shown:
            self._output.err.write("\r\x1b[K")
            self._output.err.flush()

    def _left(self, part: float, now: float) -> str:
        return f"{(now - self._began) * (1 - part) / part:.0f} s left" if part > 0.02 else ""


@contextmanager
def bar(output: Output, what: str) -> Iterator[Bar]:
    """One that is removed at the end, however that comes."""
    one = Bar(output, what)
    try:
        yield one
    finally:
        one.end()
