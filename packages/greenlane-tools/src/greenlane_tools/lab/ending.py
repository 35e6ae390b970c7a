"""How a demo or a measuring command ends: its exit code, and what it says when it ends before its time.

What is missing or taken (a tool, a package, a port, a folder, room on a disk) gets two lines; anything else is a
bug and keeps its traceback. Nothing of Greenlane is imported here: stock programs end in this way too.
"""

from __future__ import annotations

import _thread
import errno
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from sys import UnraisableHookArgs
    from types import FrameType


# --- Ctrl-C and SIGTERM end a run alike, with every process that it started.


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


#: Takes a terminal's line away.
CLEAR: Final = "\r\x1b[K"
_INTERRUPTED: Final = 130
#: Packages of a checkout: that one of their modules is missing is a bug.
_OURS: Final = ("greenlane", "greenlane_tools", "greenlane_serve", "greenlane_work", "feed", "offers", "pos", "bench")
_HINTS: Final = {
    errno.EADDRINUSE: "end the program that listens there, or give another port",
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
    errno.EMFILE: "ulimit -n 4096",
}


def exit_code(attempted: str, run: Callable[[], int], err: TextIO, stopped: str) -> int:
    """Runs it to its end, to Ctrl-C, or to what is wrong around it.

    Args:
        attempted: what is being done, as a verb phrase.
        run: gives its exit code.
        err: where the last words go.
        stopped: those of Ctrl-C and SIGTERM, exit code 130.
    """
    try:
        with ended_by_signals():
            return run()
    except Exception as error:
        text, code = told(attempted, error)
        if not text:
            raise
        # Of a progress line nothing is left.
        err.write(f"{CLEAR * err.isatty()}{text}\n")
        return code
    except KeyboardInterrupt:
        err.write(f"\n{stopped}\n")
        return _INTERRUPTED


@contextmanager
def plainly(attempted: str, err: TextIO) -> Iterator[None]:
    """Around a program: exits as `exit_code` says, and with 130 at Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except Exception as error:
        text, code = told(attempted, error)
        if not text:
            raise
        err.write(f"{text}\n")
        sys.exit(code)


def told(attempted: str, error: Exception) -> tuple[str, int]:
    """Message and exit code of what somebody can act on: an error that knows its code, or the machine's; "" = a bug."""
    if (code := getattr(error, "exit_code", None)) is not None:
        return str(error), code
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] not in _OURS:
        return f"{attempted}: package={error.name}, expected it installed\nhint: make build", 1
    if isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError) and error.strerror:
        path = f"path={str(error.filename)!r}, expected one that can be used ({error.strerror})"
        what = path if error.filename else error.strerror
        return f"{attempted}: {what}\nhint: {_HINTS.get(error.errno or 0, 'give another one')}", 1
    return "", 1
