"""The line of code at which a culprit was: the innermost frame of the application, not of a library below it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from greenlane_tools.reader.rows import Stack

__all__ = ["Frame", "frames", "own_coroutine", "own_frame", "places"]

_FRAME: Final = re.compile(r"^(?P<coroutine>async )?(?P<function>.*) \((?P<file>.*):(?P<line>\d+)\)$", re.DOTALL)
#: Files of these are libraries', or ours; the line that a team can change is above them. An application's path is its
#: last two parts in a recording, a library's begins at one of these folders.
_LIBRARY: Final = re.compile(r"(^|/)(site|dist)-packages/|(^|/)python3[.\d]*t?/|^<|^greenlane/(?!demo/)")


class Frame(NamedTuple):
    """One frame of a stack."""

    function: str
    file: str
    line: int
    #: A coroutine, or an asynchronous generator: what computes in it, or below it, keeps its loop.
    coroutine: bool = False

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


def own_coroutine(stack: str) -> tuple[Frame, str] | None:
    """The application's innermost coroutine, and the function that it had called; "" = it computed itself.

    None where there is none, or where a library's coroutine computes: that is not the application's to move.
    """
    found = frames(stack)
    innermost = next((place for place in range(len(found) - 1, -1, -1) if found[place].coroutine), None)
    if innermost is None or found[innermost].library:
        return None
    return found[innermost], found[innermost + 1].function if innermost + 1 < len(found) else ""


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
    if found is None:
        return Frame(text, "", 0)
    return Frame(found["function"], found["file"], int(found["line"]), found["coroutine"] is not None)
