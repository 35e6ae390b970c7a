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
import time
from collections.abc import Iterator, Sequence
from typing import Final

from greenlane_serve.log_pipe import opened_anew

__all__ = ["Child", "Children", "die_with_parent"]

_PR_SET_PDEATHSIG: Final = 1
# Pause between two looks for children that were killed: they end within a millisecond or two.
_LOOK_S: Final = 0.005
_libc = ctypes.CDLL(None, use_errno=True)


class Child:
    """A process that runs. `Children.reap` says when it has ended."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        fds: Sequence[int] = (),
        cwd: str | None = None,
        apart: bool = False,
        err: int | None = None,
    ) -> None:
        """Start `command` with our environment, stdout, stderr and the descriptors `fds` under the same numbers.

        Args:
            command: program and arguments.
            fds: descriptors.
            cwd: its directory; None = ours.
            apart: pipes that are our stdout and stderr are opened anew, see `log_pipe`.
            err: its stderr; None = ours.

        Raises:
            OSError: it cannot be started.
        """
        with contextlib.ExitStack() as stack:
            out, theirs = (stack.enter_context(opened_anew(fd)) if apart else None for fd in (1, 2))
            err = theirs if err is None else err
            self._process = subprocess.Popen(
                list(command), stdin=subprocess.DEVNULL, stdout=out, stderr=err, pass_fds=fds,
                preexec_fn=die_with_parent, process_group=0, cwd=cwd,
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


class Children:
    """All children of the tree, workers and fronts alike."""

    def __init__(self) -> None:
        self._running: dict[int, Child] = {}

    def start(
        self,
        command: Sequence[str],
        *,
        fds: Sequence[int] = (),
        cwd: str | None = None,
        apart: bool = False,
        err: int | None = None,
    ) -> Child:
        """Start one; see `Child`."""
        child = Child(command, fds=fds, cwd=cwd, apart=apart, err=err)
        self._running[child.pid] = child
        return child

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to one of ours, unless it has ended."""
        if child := self._running.get(pid):
            child.signal(number)

    def reap(self) -> Iterator[tuple[int, int]]:
        """(pid, exit code) of each of ours that has ended, a negative code is a signal; orphans are reaped unsaid."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._running.clear()  # somebody else has taken what was left
                return
            if pid == 0:
                return
            if child := self._running.pop(pid, None):
                code = os.waitstatus_to_exitcode(status)
                child.ended(code)
                yield pid, code

    def kill_all(self) -> Iterator[tuple[int, int]]:
        """Kill every one and wait until all have ended; as `reap`."""
        for child in list(self._running.values()):
            child.signal(signal.SIGKILL)
        while self._running:
            yield from self.reap()
            time.sleep(_LOOK_S)


def die_with_parent(number: int = signal.SIGTERM) -> None:
    """Runs in the child between fork and exec: this signal when the parent dies."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
