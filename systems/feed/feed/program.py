"""How the feed's programs end when something around them is not as it must be: one line, one hint, no traceback.

What is missing or taken (a tool, a package, a port, a folder, room on a disk) is the machine's; anything else is a bug
and keeps its traceback.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from .build import BuildError
from .children import StartFailed
from .model import SkewError

#: Those whose words are made for people; Greenlane's are, too, but who does not need it shall not import it.
_CLEAR: Final = (BuildError, StartFailed, SkewError)
_OURS: Final = ("feed", "greenlane")
#: The kernel's, and what helps.
_HINTS: Final = {
    errno.EADDRINUSE: "end the program that listens there, or give another port",
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room there",
    errno.EMFILE: "ulimit -n 4096",
}
_INTERRUPTED: Final = 130


def told(doing: str, error: Exception) -> str:
    """The error in two lines; "" = it is none of the machine's, and its traceback says more."""
    if isinstance(error, _CLEAR) or hasattr(error, "exit_code"):
        return str(error)
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] not in _OURS:
        rule = "it installed, as all of the group `feed` in pyproject.toml"
        return f"{doing}: package={error.name}, expected {rule}\nhint: make build"
    if isinstance(error, OSError) and not isinstance(error, ConnectionError):
        reason = error.strerror or str(error)
        what = f"path={str(error.filename)!r}, expected one that can be used ({reason})" if error.filename else reason
        # numpy's has no number: it wrote less than it wanted.
        return f"{doing}: {what}\nhint: {_HINTS.get(error.errno or errno.ENOSPC, 'give another one')}"
    return ""


def code(error: Exception) -> int:
    """A program's exit code after it."""
    found: int = getattr(error, "exit_code", 1)
    return found


@contextmanager
def plainly(doing: str) -> Iterator[None]:
    """Around a program: exits with 1, or an error's own code; 130 at Ctrl-C."""
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except Exception as error:
        said = told(doing, error)
        if not said:
            raise
        sys.stderr.write(f"{said}\n")
        sys.exit(code(error))
