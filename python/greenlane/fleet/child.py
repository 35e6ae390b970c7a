"""Processes that end with the one that started them, as the parent of a tree needs them.

Each gets SIGTERM from the kernel when its parent dies (PR_SET_PDEATHSIG: when the *thread* that forked dies, so start
children from the main thread), and has a process group of its own, so that Ctrl-C reaches the parent alone.

A tree reaps with `waitpid(-1)`, since as PID 1 it also gets orphans of others; so nothing here waits for one pid.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from typing import Final

__all__ = ["Child", "die_with_parent", "reaped"]

_PR_SET_PDEATHSIG: Final = 1
_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """A process that runs. `reaped` says when it has ended."""

    def __init__(self, command: Sequence[str], *, fds: Sequence[int] = ()) -> None:
        """Start `command` with our environment, stdout, stderr and the descriptors `fds` under the same numbers.

        Raises:
            OSError: it cannot be started.
        """
        self._process = subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, pass_fds=fds, preexec_fn=die_with_parent, process_group=0,
        )  # fmt: skip
        self.pid = self._process.pid

    def signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def ended(self, code: int) -> None:
        """Tell it that it was reaped: its pid is another's from now on."""
        self._process.returncode = code


def die_with_parent() -> None:
    """Runs in the child between fork and exec: SIGTERM when the parent dies."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def reaped() -> Iterator[tuple[int, int]]:
    """(pid, exit code) of each child that has ended, strangers' orphans included; a negative code is a signal."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        yield pid, os.waitstatus_to_exitcode(status)
