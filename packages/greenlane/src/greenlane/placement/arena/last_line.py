"""stderr of a worker: passed on as it is, and its last line kept where it survives a kill -9."""

from __future__ import annotations

from typing import Any, TextIO

from greenlane._native import Segment
from greenlane.placement.arena.control import write_last_line

__all__ = ["LastLine"]


class LastLine:
    """A text stream around `stream`. Log handlers made after it was put in place write through it."""

    def __init__(self, stream: TextIO, control: Segment) -> None:
        self._stream = stream
        self._control = control

    def write(self, text: str) -> int:
        """Write, and keep the last line of it that is not empty."""
        if line := text.strip().rpartition("\n")[2]:
            write_last_line(self._control, line.encode(errors="replace"))
        return self._stream.write(text)

    def writelines(self, lines: list[str]) -> None:
        """Write each."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
