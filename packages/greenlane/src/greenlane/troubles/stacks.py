"""Where a thread stands, in words: the line of the application, and what is called there."""

from __future__ import annotations

import linecache
import os
import re
import sysconfig
from collections.abc import Iterator
from functools import lru_cache, partial
from itertools import islice
from types import CodeType, FrameType
from typing import Final

__all__ = ["is_at", "outward", "place"]

#: Frames of a deeper stack are not looked at.
_MOST_FRAMES: Final = 200
_OURS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES: Final = (
    *(sysconfig.get_path(name) + os.sep for name in ("stdlib", "platstdlib", "purelib", "platlib")), _OURS,
)  # fmt: skip
_CALLED: Final = re.compile(r"^([\w.\[\]'\"]+)\(")


def outward(frame: FrameType | None, most: int = _MOST_FRAMES) -> Iterator[FrameType]:
    """The frames from this one on to its callers, at most `most`."""
    while frame is not None and most:
        yield frame
        frame, most = frame.f_back, most - 1


def is_at(frame: FrameType, function: str, file: str | tuple[str, ...]) -> bool:
    """Whether a frame is of that function of a file whose path ends so, or in one of several ways."""
    return frame.f_code.co_name == function and frame.f_code.co_filename.endswith(file)


def place(frame: FrameType) -> str:
    """`views.py:40 (bcrypt.checkpw)`: the innermost frame of the application; of none, what an executor runs there."""
    found = next((each for each in outward(frame) if _is_application(each.f_code.co_filename)), None)
    if found is None:
        if is_at(frame, "run", "concurrent/futures/thread.py") and (name := _find_function(frame)):
            return name
        found = frame
    code = found.f_code
    return _format(code, code.co_filename, found.f_lineno, found.f_lasti)


def _find_function(frame: FrameType) -> str:
    """The function that an executor's thread has called; "" = unknown."""
    item = frame.f_locals.get("self")
    function = getattr(item, "fn", None) or getattr(item, "task", (None,))[0]
    # asyncio.to_thread: partial(context.run, function, ...)
    if isinstance(function, partial):
        function = function.args[0] if function.args else function.func
    name = getattr(function, "__qualname__", "")
    return f"{function.__module__}.{name}" if name and getattr(function, "__module__", None) else str(name)


@lru_cache(maxsize=4096)
def _is_application(file: str) -> bool:
    return not file.startswith(("<", *_LIBRARIES)) and f"{os.sep}site-packages{os.sep}" not in file


@lru_cache(maxsize=1024)
def _format(code: CodeType, file: str, line: int | None, instruction: int) -> str:
    # The same code of two files is equal.
    if line is None:
        return code.co_name
    called = _find_call(code, instruction)
    return f"{_short(file)}:{line}" + (f" ({called})" if called else "")


def _find_call(code: CodeType, instruction: int) -> str:
    """What the instruction calls, as the source has it; "" where that is not known."""
    line, last, column, end = next(islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    if line is None or column is None or end is None:
        return ""
    # Columns are in bytes.
    text = linecache.getline(code.co_filename, line).encode()
    called = _CALLED.match((text[column:end] if line == last else text[column:]).decode("utf-8", "replace"))
    return called[1] if called else ""


def _short(file: str) -> str:
    try:
        here = os.path.relpath(file)
    except OSError:  # the working directory has been removed
        return file
    return here if not here.startswith("..") else os.path.join(*file.split(os.sep)[-2:])
