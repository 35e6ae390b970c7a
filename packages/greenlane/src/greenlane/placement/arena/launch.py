"""Starts a worker process: a fresh interpreter (posix_spawn), two pairs of sockets, five memory files.

Why not multiprocessing: its processes come with a resource tracker, a feeder thread and names in /dev/shm, and its
choice of start method belongs to the program. Why not subprocess: gevent replaces it by one that needs a hub.
"""

from __future__ import annotations

import fcntl
import os
import pickle
import posix  # gevent replaces what `os` has of it
import signal
import subprocess
import sys
from multiprocessing import spawn
from typing import Any, Final

from greenlane._native import Channel, Segment
from greenlane.placement.arena.commons import SharedArrays
from greenlane.placement.arena.control import ARGUMENT_WORDS, CONTROL_BYTES
from greenlane.placement.arena.memory import memory_file
from greenlane.placement.arena.message import ends
from greenlane.placement.arena.names import name_of
from greenlane.placement.arena.options import ArenaOptions
from greenlane.placement.arena.start import CHANNEL_FD, FILES_FD, Start, main_module
from greenlane.placement.arena.worker import Worker

__all__ = ["launch"]

# Above what a child's standard descriptors and ours are given as.
_FREE_FROM: Final = 16
_CATCHABLE: Final = sorted(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})
# Not sealed: it grows when the worker crashes.
_CRASH_BYTES: Final = 0
# What is the parent's alone: a worker has no jobs to record, and no permits to show.
_PARENTS: Final = ("GREENLANE_RECORD_FOLDER", "GREENLANE_CONTROL_DIR")
_PROGRAM: Final = """\
import sys
sys.path[:] = {path!r}
from greenlane.placement.arena.child import main
main({parent})
"""


def launch(options: ArenaOptions, shared: SharedArrays) -> Worker:
    """Start a worker. It says READY on its channel when it is, or ERROR when its warm-up raised.

    Call it on a thread that lives as long as the worker shall: the kernel ends the worker with it.

    Raises:
        OSError: no process or memory file could be made. Nothing is left.
    """
    channel, its_channel = Channel.pair()
    files, its_files = Channel.pair()
    fds: list[int] = []
    try:
        for size in (CONTROL_BYTES, options.arena_bytes, options.arena_bytes):
            fds.append(memory_file(size))
        fds.append(os.memfd_create("greenlane-crash", os.MFD_CLOEXEC))
        control, arguments, crash = Segment(fds[0], writable=True), Segment(fds[1], writable=True), fds[3]
        results = Segment(fds[2], writable=options.writable)
        for fd in (*fds, shared.fd):
            files.send_fd(fd)
        channel.send(pickle.dumps(_start(options)))
        pid = _spawn(its_channel, its_files)
        fds.remove(crash)
    finally:
        for fd in fds:
            os.close(fd)
        its_channel.close()
        its_files.close()
    # What a worker may write to is a copy.
    shows = None if options.writable else shared.segment
    outbox, inbox = ends(arguments, results, control, ARGUMENT_WORDS, channel, files, shows=shows)
    return Worker(pid, channel, files, control, outbox, inbox, crash)


def _start(options: ArenaOptions) -> Start:
    warm_up = "" if options.warm_up is None else name_of(options.warm_up)
    key, value = main_module()
    return Start(warm_up, options.writable, options.payload_max_bytes, tuple(sys.argv), key, value)


def _spawn(channel: Channel, files: Channel) -> int:
    program = _PROGRAM.format(path=sys.path, parent=os.getpid())
    executable = os.fsdecode(spawn.get_executable() or sys.executable)
    flags: Any = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    high = [fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, _FREE_FROM) for end in (channel, files)]
    try:
        return posix.posix_spawn(
            executable,
            [executable, *flags, "-c", program],
            {name: value for name, value in os.environ.items() if name not in _PARENTS},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, high[0], CHANNEL_FD),
                (os.POSIX_SPAWN_DUP2, high[1], FILES_FD),
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            ],
            setpgroup=0,
            setsigmask=[],
            setsigdef=_CATCHABLE,
        )
    finally:
        for fd in high:
            os.close(fd)
