"""HAProxy's process: start, another configuration, end. Its listening sockets are the parent's."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Sequence
from pathlib import Path

from greenlane.errors import FrontError
from greenlane_serve.child import Child
from greenlane_serve.haproxy import access_log, assigned, found, sockets
from greenlane_serve.haproxy.runtime import Runtime

__all__ = ["Front"]


class Front:
    """One HAProxy, and those that finish what they have after another configuration came.

    Args:
        program: from `found.found`.
        folder: where its configuration and sockets are.
        start: makes a child of the tree.
        err: its stderr, where it writes no access log there; None = ours.
    """

    def __init__(self, program: str, folder: Path, start: Callable[..., Child] = Child, err: int | None = None) -> None:
        self.program = program
        self.version = found.shown(found.version(program))
        self._start = start
        self._err = err
        self._file = folder / "haproxy.cfg"
        (folder / assigned.FILE).touch()
        self.runtime = Runtime(folder / "runtime")
        self.child: Child | None = None
        # Those that no longer listen.
        self.leaving: dict[int, Child] = {}
        # Those that were told to end now.
        self._told: set[int] = set()

    def run(self, text: str, fds: Sequence[int]) -> None:
        """Start with this configuration; one that runs stops to listen and finishes what it has.

        Args:
            text: the configuration.
            fds: descriptors of the listening sockets, named `fd@N` in it.

        Raises:
            FrontError: the configuration is refused, or cannot be written. What ran goes on.
        """
        trial = self._file.with_suffix(".new")
        try:
            trial.write_text(text)
        except OSError as error:
            rule = f"a folder that can be written to ({error.strerror})"
            raise FrontError("start the front", name="folder", value=str(trial.parent), rule=rule,
                             hint="start the service again, and keep others from its folder") from None  # fmt: skip
        found.check(self.program, trial, fds)
        trial.replace(self._file)
        before = self.child
        command = [self.program, "-db", "-f", str(self._file)]
        if before is not None:
            self.leaving[before.pid] = before
            command += ["-sf", str(before.pid)]
        err = None if access_log.on_stderr(text) else self._err
        self.child = self._start(command, fds=fds, apart=True, err=err)
        self.runtime.twins = sockets.twins(text)

    def died(self, pid: int, code: int) -> bool:
        """Whether this was the one that serves."""
        self._told.discard(pid)
        gone = self.leaving.pop(pid, None)
        if self.child is not None and self.child.pid == pid:
            gone, self.child = self.child, None
            gone.ended(code)
            return True
        if gone is not None:
            gone.ended(code)
        return False

    def finish(self) -> None:
        """Listen no longer, end what is in progress, then end."""
        self._signal(signal.SIGUSR1, self._all())

    def end(self) -> None:
        """End now; who does not, hung or stopped, is killed by the second call."""
        self._end(self._all())

    def end_leaving(self) -> None:
        """End those that finish what they have, as `end`."""
        self._end(list(self.leaving.values()))

    @property
    def running(self) -> bool:
        """Some HAProxy of ours is there."""
        return self.child is not None or bool(self.leaving)

    def _all(self) -> list[Child]:
        return [*self.leaving.values(), *([self.child] if self.child else [])]

    def _end(self, children: Sequence[Child]) -> None:
        self._signal(signal.SIGKILL, [one for one in children if one.pid in self._told])
        self._signal(signal.SIGTERM, [one for one in children if one.pid not in self._told])
        self._told.update(one.pid for one in children)

    def _signal(self, number: int, children: Sequence[Child]) -> None:
        for child in children:
            with contextlib.suppress(OSError):
                child.signal(number)
