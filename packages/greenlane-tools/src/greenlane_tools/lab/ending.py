"""How a demo or a measuring command ends: its exit code, and what it says when it ends before its time.

What is missing or taken (a tool, a package, a port, a folder, room on a disk) gets two lines; anything else is a
bug and keeps its traceback. Nothing of Greenlane is imported here: stock programs end in this way too.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, TextIO

from greenlane_tools.lab.interruption import ended_by_signals

__all__ = ["CLEAR", "exit_code", "plainly", "told"]

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
