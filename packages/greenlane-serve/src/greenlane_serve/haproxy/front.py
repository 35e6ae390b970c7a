"""HAProxy's process: started, kept running, told who serves, ended. Its listening sockets are the parent's."""

from __future__ import annotations

import contextlib
import math
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from greenlane.errors import FrontError, GreenlaneError, ServeError
from greenlane_serve.folders import FRONT_PID
from greenlane_serve.group import Backoff, Group, Slot
from greenlane_serve.haproxy import found
from greenlane_serve.haproxy.configuration import DOOR, LIFE, PUBLIC
from greenlane_serve.haproxy.requests import on_stderr
from greenlane_serve.haproxy.routing import FILE, twins
from greenlane_serve.haproxy.runtime import RUNTIME_SOCKET, Runtime
from greenlane_serve.processes import ChildProcess

_READ_BYTES: Final = 65536
# A line that is longer goes on in pieces.
_LINE_BYTES: Final = 65536
_STOPPED: Final = re.compile(rb"\[WARNING\] +\(\d+\) : Proxy \S+ stopped \(cumulated conns: FE: \d+, BE: \d+\)\.\n?")


def news(lines: list[bytes]) -> list[bytes]:
    """Those lines that tell something."""
    return [line for line in lines if not _STOPPED.fullmatch(line)]


class Said:
    """A pipe for the stderr of fronts. They never wait for us: what does not fit into it is lost.

    Args:
        to: the descriptor that the lines go to.
    """

    def __init__(self, to: int = 2) -> None:
        #: Readable when a front has said something.
        self.fd, self.write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._to = to
        self._begun = b""

    def pass_on(self) -> None:
        """Pass on the whole lines that are there. Blocks while who reads ours does not."""
        try:
            while came := os.read(self.fd, _READ_BYTES):
                *lines, self._begun = (self._begun + came).splitlines(keepends=True) or [b""]
                if self._begun.endswith(b"\n") or len(self._begun) > _LINE_BYTES:
                    lines, self._begun = [*lines, self._begun], b""
                self._write(lines)
        except BlockingIOError:
            return

    def close(self) -> None:
        """Pass on what is left. After the last front has ended."""
        self.pass_on()
        self._write([self._begun])
        os.close(self.fd)
        os.close(self.write_fd)

    def _write(self, lines: list[bytes]) -> None:
        left = memoryview(b"".join(news(lines)))
        with contextlib.suppress(OSError):  # nobody reads ours: the service goes on without
            while left:
                left = left[os.write(self._to, left) :]


class Haproxy:
    """One HAProxy, and those that finish what they have after another configuration came.

    Args:
        program: from `found.found`.
        folder: where its configuration and sockets are.
        start: makes a child of the tree.
        err: its stderr, where it writes no access log there; None = ours.
    """

    def __init__(
        self, program: str, folder: Path, start: Callable[..., ChildProcess] = ChildProcess, err: int | None = None
    ) -> None:
        self.program = program
        self.version = found.shown(found.version(program))
        self._start = start
        self._err = err
        self._file = folder / "haproxy.cfg"
        (folder / FILE).touch()
        self.runtime = Runtime(folder / "runtime")
        self.child: ChildProcess | None = None
        # Those that no longer listen.
        self.leaving: dict[int, ChildProcess] = {}
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
            if self.child is not None:
                rule = f"a folder that can be written to ({error.strerror})"
                raise FrontError("start the front", name="folder", value=str(trial.parent), rule=rule,
                                 hint="make room in its folder, and keep others from it") from None  # fmt: skip
            # Nobody is served without one: from memory then.
            fd = os.memfd_create("haproxy.cfg")
            with os.fdopen(fd, "w", closefd=False) as memory:
                memory.write(text)
            try:
                self._begin(text, Path(f"/proc/self/fd/{fd}"), [*fds, fd])
            finally:
                os.close(fd)
            return
        found.check(self.program, trial, fds)
        trial.replace(self._file)
        self._begin(text, self._file, fds)

    def _begin(self, text: str, file: Path, fds: Sequence[int]) -> None:
        before = self.child
        command = [self.program, "-db", "-f", str(file)]
        if before is not None:
            self.leaving[before.pid] = before
            command += ["-sf", str(before.pid)]
        err = None if on_stderr(text) else self._err
        self.child = self._start(command, fds=fds, apart=True, err=err)
        with contextlib.suppress(OSError):  # a full disk
            (self._file.parent / FRONT_PID).write_text(str(self.child.pid))
        self.runtime.twins = twins(text)

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
        """End now; a process that does not, hung or stopped, is killed by the second call."""
        self._end(self._all())

    def end_leaving(self) -> None:
        """End those that finish what they have, as `end`."""
        self._end(list(self.leaving.values()))

    @property
    def running(self) -> bool:
        """One of our HAProxy processes runs."""
        return self.child is not None or bool(self.leaving)

    def _all(self) -> list[ChildProcess]:
        return [*self.leaving.values(), *([self.child] if self.child else [])]

    def _end(self, children: Sequence[ChildProcess]) -> None:
        self._signal(signal.SIGKILL, [one for one in children if one.pid in self._told])
        self._signal(signal.SIGTERM, [one for one in children if one.pid not in self._told])
        self._told.update(one.pid for one in children)

    def _signal(self, number: int, children: Sequence[ChildProcess]) -> None:
        for child in children:
            with contextlib.suppress(OSError):
                child.signal(number)


# HAProxy opens its runtime socket before it forks anything: some 20 ms.
_FRONT_S: Final = 10.0
_LOOK_S: Final = 0.01
# Time that a front gets to end at once; then it is killed.
_END_S: Final = 1.0
# Fronts that may die in a row before the first has served.
_FIRST_TRIES: Final = 3


class Doorkeeper:
    """Starts a front with what it is to do, again after it has died, and passes on what changes.

    Args:
        front: the process.
        say: takes one line for the log.
        reap: takes note of children that have ended, the front perhaps.
    """

    def __init__(self, front: Haproxy, say: Callable[[str], None], reap: Callable[[], None]) -> None:
        self.front = front
        self.backoff = Backoff()
        self._say = say
        self._reap = reap
        self._since_s = 0.0
        #: When those before the present one must have ended.
        self.leave_until_s = math.inf
        #: It runs and does not answer at its runtime socket: another one must take its place.
        self.deaf = False

    def may_start(self, now_s: float, *, served: bool) -> bool:
        """Whether the pause after a death is over, or one runs.

        Args:
            now_s: the time.
            served: the service has ever been whole.

        Raises:
            ServeError: it has not, and front after front dies.
        """
        if self.backoff.failures >= _FIRST_TRIES and not served:
            raise ServeError("start the front", name="haproxy", value=self.front.program, rule="one that stays",
                             hint="see above what it says")  # fmt: skip
        return self.front.child is not None or self.backoff.may_try(now_s)

    def start(self, text: str, fds: Sequence[int], groups: Iterable[Group], *, leave_s: float) -> None:
        """Start a front, or another one after that which runs. Blocks until it can be talked to, some 40 ms.

        Args:
            text: its configuration.
            fds: descriptors of the public sockets.
            groups: the groups to serve.
            leave_s: time that one which runs has to finish.

        Raises:
            FrontError: the configuration is refused. What ran goes on.
        """
        if self.front.child is not None:
            self.leave_until_s = time.monotonic() + leave_s
        self.front.run(text, fds)
        self.deaf = False
        self._since_s = time.monotonic()
        until_s = self._since_s + _FRONT_S
        while time.monotonic() < until_s and not self._listens():
            if self.front.child is None:
                return
            time.sleep(_LOOK_S)
            self._reap()
        for group in groups:  # what came or went meanwhile
            for slot in group.slots:
                (self.open if slot.open else self.shut)(group, slot)

    def end_late(self, now_s: float) -> None:
        """End the fronts before the present one whose time is over."""
        if self.front.leaving and now_s >= self.leave_until_s:
            self.leave_until_s = now_s + _END_S
            self.front.end_leaving()

    def close(self) -> None:
        """Accept no new connection; requests in progress finish, and close their connections."""
        runtime = self.front.runtime
        try:
            runtime.disable(LIFE, DOOR)
            runtime.close(PUBLIC)
        except ServeError:
            self.front.finish()

    def idle(self) -> bool:
        """Whether no front has a request in progress."""
        with contextlib.suppress(ServeError):
            return not self.front.leaving and self.front.runtime.idle()
        return False

    def live(self, group: str, *, lives: bool) -> None:
        """Let the front know whether a worker of a group serves."""
        change = self.front.runtime.enable if lives else self.front.runtime.disable
        self.tell(lambda: change(LIFE, group))

    def end(self, now_s: float) -> float:
        """End every front, at the second call for certain; when to look again."""
        self.front.end()
        return now_s + _END_S

    def next_s(self, now_s: float, *, wanted: bool) -> float:
        """When it is to be looked at again, if nothing happens before; `wanted`: there should be a front."""
        times = [math.inf]
        if self.front.child is None and wanted:
            times.append(self.backoff.until_s)
        if self.front.leaving and self.leave_until_s > now_s:
            times.append(self.leave_until_s)
        return min(times)

    def _listens(self) -> bool:
        """Whether the present one answers: for a moment the one before still does."""
        with contextlib.suppress(ServeError):
            return self.front.child is not None and self.front.runtime.pid() == self.front.child.pid
        return False

    def open(self, group: Group, slot: Slot) -> None:
        """Let the front give a worker requests."""
        self.tell(lambda: self.front.runtime.enable(group.name, slot.name))

    def shut(self, group: Group, slot: Slot) -> None:
        """Let the front give it nothing new."""
        self.tell(lambda: self.front.runtime.disable(group.name, slot.name))

    def tell(self, command: Callable[[], None]) -> None:
        """Do a command; nothing while no front runs: a front that starts reads its configuration."""
        if self.front.child is None:
            return
        try:
            command()
        except ServeError as error:
            self.failed(error)

    def failed(self, error: GreenlaneError) -> None:
        """Tell an error; one of the runtime socket says that the front is deaf."""
        if error.name == RUNTIME_SOCKET:
            if self.deaf:
                return  # told already
            self.deaf = True
        self._say(str(error))

    def in_progress(self, group: Group, slot: Slot) -> int:
        """Requests that a worker has."""
        if self.front.child is None:
            return 0
        try:
            return self.front.runtime.in_progress(group.name, slot.name)
        except ServeError:
            return 1

    def died(self, now_s: float) -> float:
        """Note that the front has ended; the pause before the next try, in s."""
        return self.backoff.failed(now_s, now_s - self._since_s)
