"""Ctrl-C and SIGTERM end a run alike, with every process that it started.

Either raises KeyboardInterrupt where the main thread is. That may be a place whose exceptions Python prints and
ignores: a destructor, or a hook around fork, which every start of a process runs. So the wish is remembered too, and
`checkpoint` raises again; what Python would print of it is left out.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

__all__ = ["checkpoint", "ended_by_signals"]

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
# Signals that came and have not ended the run yet.
_asked: Final[list[int]] = []


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
        for number, handler in before.items():
            signal.signal(number, handler)


def checkpoint() -> None:
    """Raises KeyboardInterrupt when one was raised before and got lost. Called several times a second."""
    if _asked:
        raise KeyboardInterrupt


def _interrupt(number: int, frame: object) -> None:
    _asked.append(number)
    raise KeyboardInterrupt
