"""Starts a worker process: a fresh interpreter, two pairs of sockets, five memory files."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Final

from greenlane._native import Channel, Segment
from greenlane.placement import interpreter
from greenlane.placement.arena.memory import SharedArrays, memory_file
from greenlane.placement.arena.names import main_module, name_of
from greenlane.placement.arena.options import ArenaOptions
from greenlane.placement.arena.protocol import ARGUMENT_WORDS, CONTROL_BYTES, Start, ends
from greenlane.placement.arena.worker import ArenaWorker

__all__ = ["launch"]

_MODULE: Final = "greenlane.placement.arena.child"
# What is the parent's alone: a worker has no jobs to record, and no permits to show.
_PARENTS: Final = ("GREENLANE_RECORD_FOLDER", "GREENLANE_CONTROL_DIR")


def launch(options: ArenaOptions, shared: SharedArrays) -> ArenaWorker:
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
        # Not sealed: it grows when the worker crashes.
        fds.append(os.memfd_create("greenlane-crash", os.MFD_CLOEXEC))
        control, arguments, crash = Segment(fds[0], writable=True), Segment(fds[1], writable=True), fds[3]
        results = Segment(fds[2], writable=options.writable)
        for fd in (*fds, shared.fd):
            files.send_fd(fd)
        channel.send(pickle.dumps(_start(options)))
        environ = {name: value for name, value in os.environ.items() if name not in _PARENTS}
        # In the order of CHANNEL_FD and FILES_FD.
        pid = interpreter.start(_MODULE, [its_channel.fileno(), its_files.fileno()], environ)
        fds.remove(crash)
    finally:
        for fd in fds:
            os.close(fd)
        its_channel.close()
        its_files.close()
    # What a worker may write to is a copy.
    shows = None if options.writable else shared.segment
    outbox, inbox = ends(arguments, results, control, ARGUMENT_WORDS, channel, files, shows=shows)
    return ArenaWorker(pid, channel, files, control, outbox, inbox, crash)


def _start(options: ArenaOptions) -> Start:
    warm_up = "" if options.warm_up is None else name_of(options.warm_up)
    key, value = main_module()
    return Start(warm_up, options.writable, options.payload_max_bytes, tuple(sys.argv), key, value)
