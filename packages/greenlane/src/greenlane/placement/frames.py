"""Tracebacks as their readers want them: the caller's frames and the function's, without ours between."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final

__all__ = ["without_ours"]

_HERE: Final = Path(__file__).resolve().parent
#: This package, and the function that people call.
_OURS: Final = (f"{_HERE}/", f"{_HERE.parent}/wiring/placing.py")


def without_ours(error: BaseException) -> BaseException:
    """Give `error` without the frames of ours that its traceback begins with, to be raised again by one frame."""
    return error.with_traceback(_inner(error.__traceback__))


def _inner(traceback: TracebackType | None) -> TracebackType | None:
    at = traceback
    while at is not None and at.tb_frame.f_code.co_filename.startswith(_OURS):
        at = at.tb_next
    # All ours: the function could not even be called (wrong arguments), or it is a C function: there is no inner frame.
    return at
