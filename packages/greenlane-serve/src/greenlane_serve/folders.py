"""The folders of a service, which go with it: its own, its workers' control sockets, what they measure.

Who lives in one holds a lock on it, shared: the parent, and each worker. A parent that is killed removes nothing, so
the last worker does as it ends; and where nobody was left to do so, the next service that starts. systemd-tmpfiles,
which cleans /tmp by age, leaves what is locked, too.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

__all__ = ["is_ours", "live_in", "made", "remove_left"]

_PREFIX: Final = "greenlane-"
# A file that tells ours from others' of such a name; there only once the folder is locked.
_OURS: Final = ".greenlane"


def made(stack: contextlib.ExitStack, where: Path) -> Path:
    """Make a folder for our user alone, which is there until `stack` closes."""
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=where))
    stack.callback(shutil.rmtree, folder, ignore_errors=True)
    stack.callback(os.close, _locked(folder))
    (folder / _OURS).touch()
    return folder


def is_ours(folder: Path) -> bool:
    """Whether a service of ours has made it."""
    return (folder / _OURS).exists()


def live_in(folder: Path) -> None:
    """Live there until this process ends; the last one of a service whose parent was killed removes it.

    Does nothing with a folder that is none of ours.
    """
    if is_ours(folder):
        with contextlib.suppress(OSError):
            atexit.register(_leave, folder, _locked(folder))


def remove_left(where: Path) -> None:
    """Remove what killed services have left there, in memory until the machine is started again."""
    for mark in where.glob(f"{_PREFIX}*/{_OURS}"):
        with contextlib.suppress(OSError):
            fd = os.open(mark.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                _leave(mark.parent, fd)
            finally:
                os.close(fd)


def _locked(folder: Path) -> int:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(fd, fcntl.LOCK_SH)
    return fd


def _leave(folder: Path, fd: int) -> None:
    with contextlib.suppress(OSError):  # somebody lives there
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(fd).st_uid == os.getuid():
            shutil.rmtree(folder, ignore_errors=True)
