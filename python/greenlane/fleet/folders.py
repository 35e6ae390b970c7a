"""The folders of a service, which go with it: its own, its workers' control sockets, what they measure.

Who lives in one holds its lock, shared: the parent, and each worker. A parent that is killed removes nothing, so the
last worker does as it ends; and where nobody was left to do so, the next service that starts.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, Final

__all__ = ["live_in", "made", "remove_left"]

_PREFIX: Final = "greenlane-"
# Of nobody else's folder with such a name.
_LOCK: Final = ".greenlane-serve"


def made(stack: contextlib.ExitStack, where: Path) -> Path:
    """Make a folder for our user alone, which is there until `stack` closes."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=where))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    fresh = folder / f"{_LOCK}.new"  # nobody sees it before it is locked
    lock = stack.enter_context(open(fresh, "w"))
    fcntl.flock(lock, fcntl.LOCK_SH)
    fresh.rename(folder / _LOCK)
    return folder


def live_in(folder: Path) -> None:
    """Live there until this process ends; the last one of a service whose parent was killed removes it.

    Does nothing with a folder that is none of ours.
    """
    with contextlib.suppress(OSError):
        lock = open(folder / _LOCK)
        fcntl.flock(lock, fcntl.LOCK_SH)
        atexit.register(_leave, folder, lock)


def remove_left(where: Path) -> None:
    """Remove what killed services have left there, in memory until the machine is started again."""
    for path in where.glob(f"{_PREFIX}*/{_LOCK}"):
        with contextlib.suppress(OSError), open(path) as lock:
            _leave(path.parent, lock)


def _leave(folder: Path, lock: IO[str]) -> None:
    with contextlib.suppress(OSError):  # somebody lives there
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock.fileno()).st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
