"""Ctrl-C and SIGTERM end a run alike, with every process that it started.

Either raises KeyboardInterrupt where the main thread is. That may be a place whose exceptions Python prints and
ignores: a destructor, or a hook around fork, which every start of a process runs. So the wish is remembered too, and
`checkpoint` raises again; what Python would print of it is left out.

Within `logging` nothing is raised: it takes its locks before the `try` that gives them back, and a thread that ends
between the two leaves every other one waiting for ever. The wish comes again shortly after.
"""

from __future__ import annotations

import _thread
import logging
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType

__all__ = ["checkpoint", "ended_by_signals"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_AGAIN_S: Final = 0.02
# Signals that came and have not ended the run yet.
_asked: Final[list[int]] = []
# Of them those that came within `logging` and were raised nowhere yet.
_put_off: Final[list[int]] = []


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Both raise KeyboardInterrupt meanwhile; only in the main thread, else they are left alone."""
    try:
        before = {number: signal.signal(number, _interrupt) for number in _SIGNALS}
    except ValueError:
        yield
        return
    told = sys.unraisablehook

    def tell(ignored: UnraisableHookArgs) -> None:
        if not isinstance(ignored.exc_value, KeyboardInterrupt):
            told(ignored)

    sys.unraisablehook = tell
    try:
        yield
    finally:
        sys.unraisablehook = told
        _asked.clear()
        _put_off.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


def checkpoint() -> None:
    """Raises KeyboardInterrupt when one was raised before and got lost. Called several times a second."""
    if _asked:
        _put_off.clear()
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> None:
    _asked.append(number)
    if _is_in(logging.__name__, frame):
        _put_off.append(number)
        # Not by threading.Thread, which takes locks too.
        _thread.start_new_thread(_ask_again, ())
        return
    _put_off.clear()
    raise KeyboardInterrupt


def _ask_again() -> None:
    time.sleep(_AGAIN_S)
    if _put_off and (main := threading.main_thread().ident) is not None:
        signal.pthread_kill(main, signal.SIGINT)


def _is_in(module: str, frame: FrameType | None) -> bool:
    while frame is not None and frame.f_globals.get("__name__") != module:
        frame = frame.f_back
    return frame is not None
