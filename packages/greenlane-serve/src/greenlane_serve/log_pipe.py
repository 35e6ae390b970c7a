"""Where the front writes its access log, when that is our stdout or stderr and a pipe.

HAProxy rather loses a line than waits. It also sets what it writes to not to block, and that is a property of the open
file, which workers share: a `print` of the application would fail when the pipe is full. So HAProxy gets the same pipe
opened anew, and room in it for the time in which its reader is not scheduled.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterator
from typing import Final

__all__ = ["LogLost", "opened_anew"]

# What every user may ask for (fs.pipe-max-size): some 2,500 lines. The kernel's default is a sixteenth.
_ROOM_BYTES: Final = 1 << 20
_TELL_EVERY_S: Final = 60.0


@contextlib.contextmanager
def opened_anew(fd: int) -> Iterator[int | None]:
    """The same pipe by another open file, for as long as inside; None = it is no pipe."""
    if not stat.S_ISFIFO(os.fstat(fd).st_mode):
        yield None
        return
    with contextlib.suppress(OSError):
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _ROOM_BYTES)
    try:
        anew = os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        yield anew
    finally:
        os.close(anew)


class LogLost:
    """Tells of lines that were lost, at most once a minute."""

    def __init__(self) -> None:
        self._told = 0
        self._told_s = 0.0

    def line(self, lost: int, now_s: float) -> str:
        """What to say of so many, "" = nothing. A front that starts anew counts from 0."""
        if lost < self._told:
            self._told = 0
        if lost == self._told or now_s - self._told_s < _TELL_EVERY_S:
            return ""
        more, self._told, self._told_s = lost - self._told, lost, now_s
        return f"the access log has lost {more} lines: who reads it is too slow"
