"""Starts a fresh interpreter: what a worker process is, and the bridge to a cluster.

Why not multiprocessing: its processes come with a resource tracker, a feeder thread and names in /dev/shm, and its
choice of start method belongs to the program. Why not subprocess: gevent replaces it by one that needs a hub.
"""

from __future__ import annotations

import fcntl
import os
import posix  # gevent replaces what `os` has of it
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import spawn
from typing import Any, Final

__all__ = ["start"]

#: Its descriptors begin here.
_FIRST_FD: Final = 3
# Above what a child's standard descriptors and ours are given as.
_FREE_FROM: Final = 16
_CATCHABLE: Final = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
_PROGRAM: Final = """\
import sys
sys.path[:] = {path!r}
from {module} import main
main({parent})
"""


def start(module: str, fds: Sequence[int], environ: Mapping[str, str], actions: Sequence[Any] = ()) -> int:
    """Start it with the `main` of a module, which gets this process's id. Give its own.

    Args:
        module: whose `main` it runs.
        fds: what it has as descriptors 3, 4, ...
        environ: its environment.
        actions: of posix_spawn, besides.

    Raises:
        OSError: it could not be made. Nothing is left.
    """
    program = _PROGRAM.format(path=sys.path, module=module, parent=os.getpid())
    executable = os.fsdecode(spawn.get_executable() or sys.executable)
    flags: Any = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    high: list[int] = []
    try:
        for fd in fds:
            high.append(fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FREE_FROM))
        return posix.posix_spawn(
            executable,
            [executable, *flags, "-c", program],
            environ,
            file_actions=[
                *((os.POSIX_SPAWN_DUP2, fd, _FIRST_FD + at) for at, fd in enumerate(high)),
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                *actions,
            ],
            setpgroup=0,
            setsigmask=[],
            setsigdef=_CATCHABLE,
        )
    finally:
        for fd in high:
            os.close(fd)
