"""Keeps one front running, and tells it which workers serve."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from greenlane.errors import FleetError, GreenlaneError
from greenlane_serve.backoff import Backoff
from greenlane_serve.group import Group, Slot
from greenlane_serve.haproxy.front import Front
from greenlane_serve.haproxy.runtime import RUNTIME_SOCKET

__all__ = ["Doorkeeper"]

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

    def __init__(self, front: Front, say: Callable[[str], None], reap: Callable[[], None]) -> None:
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
            FleetError: it has not, and front after front dies.
        """
        if self.backoff.failures >= _FIRST_TRIES and not served:
            raise FleetError("start the front", name="haproxy", value=self.front.program, rule="one that stays",
                             hint="see above what it says")  # fmt: skip
        return self.front.child is not None or self.backoff.may_try(now_s)

    def start(self, text: str, fds: Sequence[int], groups: Iterable[Group], *, leave_s: float) -> None:
        """Start a front, or another one after that which runs. Blocks until it can be talked to, some 40 ms.

        Args:
            text: its configuration.
            fds: descriptors of the public sockets.
            groups: whom it is to know.
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
        with contextlib.suppress(FleetError):
            return self.front.child is not None and self.front.runtime.pid() == self.front.child.pid
        return False

    def open(self, group: Group, slot: Slot) -> None:
        """Let the front give a worker requests."""
        self.tell(lambda: self.front.runtime.enable(group.name, slot.name))

    def shut(self, group: Group, slot: Slot) -> None:
        """Let the front give it nothing new."""
        self.tell(lambda: self.front.runtime.disable(group.name, slot.name))

    def tell(self, command: Callable[[], None]) -> None:
        """Do a command; nothing while no front runs: one that starts is told by its configuration."""
        if self.front.child is None:
            return
        try:
            command()
        except FleetError as error:
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
        except FleetError:
            return 1

    def died(self, now_s: float) -> float:
        """Note that the front has ended; the pause before the next try, in s."""
        return self.backoff.failed(now_s, now_s - self._since_s)
