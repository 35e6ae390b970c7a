"""How a demo or a measuring command ends: its exit code, and what it says when it ends before its time."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final, TextIO

from greenlane.errors import GreenlaneError
from greenlane_tools.lab.interruption import ended_by_signals
from greenlane_tools.lab.run.talk import CLEAR

__all__ = ["exit_code", "told"]

_INTERRUPTED: Final = 130
_HINTS: Final = {
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
    errno.EMFILE: "ulimit -n 4096",
}


def exit_code(
    attempted: str,
    run: Callable[[], int],
    err: TextIO,
    stopped: str,
    said: Callable[[str, Exception], tuple[str, int]] | None = None,
) -> int:
    """Runs it to its end, to Ctrl-C, or to what is wrong around it; bugs keep their tracebacks.

    Args:
        attempted: what is being done, as a verb phrase.
        run: gives its exit code.
        err: where the last words go.
        stopped: those of Ctrl-C and SIGTERM, exit code 130.
        said: message and exit code of an error, "" = a bug; None = `told`.
    """
    try:
        with ended_by_signals():
            return run()
    except Exception as error:
        text, code = (said or told)(attempted, error)
        if not text:
            raise
        # Of a progress line nothing is left.
        err.write(f"{CLEAR * err.isatty()}{text}\n")
        return code
    except KeyboardInterrupt:
        err.write(f"\n{stopped}\n")
        return _INTERRUPTED


def told(attempted: str, error: Exception) -> tuple[str, int]:
    """Message and exit code of what somebody can act on: an error of ours, or the machine's; "" = none of them."""
    if isinstance(error, GreenlaneError):
        return str(error), error.exit_code
    if isinstance(error, OSError) and not isinstance(error, ConnectionError | TimeoutError) and error.strerror:
        path = f"path={str(error.filename)!r}, expected one that can be used ({error.strerror})"
        what = path if error.filename else error.strerror
        return f"{attempted}: {what}\nhint: {_HINTS.get(error.errno or 0, 'give another one')}", 1
    return "", 1
