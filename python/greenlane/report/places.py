"""The line of code at which a culprit was: the innermost frame of the application, not of a library below it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from greenlane.record.rows import Stack

__all__ = ["Frame", "frames", "own_frame", "places"]

_FRAME: Final = re.compile(r"^(?P<function>.*) \((?P<file>.*):(?P<line>\d+)\)$", re.DOTALL)
#: Files of these are libraries', or ours; the line that a team can change is above them. An application's path is its
#: last two parts in a recording, a library's begins at one of these folders.
_LIBRARY: Final = re.compile(r"(^|/)(site|dist)-packages/|(^|/)python3[.\d]*t?/|^<|^greenlane/(?!demo/)")


class Frame(NamedTuple):
    """One frame of a stack."""

    function: str
    file: str
    line: int

    @property
    def place(self) -> str:
        """ "pricing.py:88"."""
        return f"{self.file.rpartition('/')[2]}:{self.line}" if self.file else self.function

    @property
    def library(self) -> bool:
        """Whether it belongs to a library, or to the interpreter."""
        return not self.file or _LIBRARY.search(self.file) is not None


def frames(stack: str) -> list[Frame]:
    """From the outermost; a frame in another form keeps its text as its function."""
    return [_frame(text) for text in stack.split(";") if text]


def own_frame(stack: str) -> Frame | None:
    """The innermost frame of the application; the innermost of all when there is none. None of an empty stack."""
    found = frames(stack)
    return next((frame for frame in reversed(found) if not frame.library), found[-1] if found else None)


def places(stacks: Iterable[Stack]) -> Mapping[str, Frame]:
    """For each culprit the frame at which it spent most while others waited."""
    weights: dict[str, dict[Frame, int]] = {}
    for row in stacks:
        frame = own_frame(row.stack)
        if frame is not None:
            of = weights.setdefault(row.culprit, {})
            of[frame] = of.get(frame, 0) + row.ns
    return {culprit: max(of, key=lambda frame: of[frame]) for culprit, of in weights.items()}


def _frame(text: str) -> Frame:
    found = _FRAME.match(text)
    return Frame(found["function"], found["file"], int(found["line"])) if found else Frame(text, "", 0)
