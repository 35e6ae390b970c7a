"""The workers of all groups as processes: started on the sockets of their slots, heard, watched, ended."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import selectors
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from greenlane_serve.folders import Account
from greenlane_serve.group import Group, Slot, State
from greenlane_serve.processes import Children, listen
from greenlane_serve.rounds import Service
from greenlane_serve.worker.ledger import Ledger, Sums

_READY_BYTES: Final = 64
_REQUEST_BYTES: Final = 1 << 20
_REFUSAL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\nContent-Length: 18\r\nContent-Type: text/plain\r\n"
    b"Connection: close\r\n\r\nno worker in time\n"
)


class Staff:
    """Starts workers.

    Args:
        children: of the tree.
        selector: gets the pipe on which each says that it serves.
        application: `module:attribute`.
        kind: `wsgi` or `asgi`.
        account: the user that workers run as; None = ours.
    """

    def __init__(
        self,
        children: Children,
        selector: selectors.BaseSelector,
        application: str,
        kind: str,
        account: Account | None = None,
    ) -> None:
        self._account = account
        self._children = children
        self._selector = selector
        self._application = application
        self._kind = kind
        self._sockets: dict[Path, socket.socket] = {}
        self._pipes: dict[int, int] = {}  # read end -> pid of the worker that will say so
        self._ledgers: dict[int, Ledger] = {}
        self._number = 0
        #: Variables that workers get beside ours.
        # Workers have the read end: it ends when we do, however that comes.
        self._alive = os.pipe2(os.O_CLOEXEC)

    def seat(self, group: Group) -> None:
        """Listen for every slot of a group. The sockets are ours, so that no client is refused while workers change."""
        for slot in group.slots:
            (self._sockets[slot.socket],) = listen([str(slot.socket)])
            self._sockets[slot.socket].setblocking(False)
            if self._account is not None:
                self._account.give(slot.socket)

    def dismiss(self, group: Group) -> None:
        """Listen no longer for a group whose workers have all ended."""
        for slot in group.slots:
            self._sockets.pop(slot.socket).close()

    def start(self, group: Group, slot: Slot) -> int:
        """Start a worker on the slot; its pid."""
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        listener = self._sockets[slot.socket].fileno()
        ledger = Ledger()
        self._number += 1
        command = [
            sys.executable, "-m", "greenlane_serve.worker", self._kind, self._application,
            str(listener), str(slot.socket), str(self._number), str(write_fd), str(ledger.fd),
            str(self._alive[0]), str(group.stop_s),
        ]  # fmt: skip
        try:
            fds = (write_fd, listener, ledger.fd, self._alive[0])
            child = self._children.start(command, fds=fds, account=self._account)
        except BaseException:
            ledger.close()
            os.close(read_fd)
            raise
        finally:
            os.close(write_fd)
        self._ledgers[child.pid] = ledger
        self._pipes[read_fd] = child.pid
        self._selector.register(read_fd, selectors.EVENT_READ)
        return child.pid

    def hear(self, fd: int) -> int:
        """The worker that says on this pipe that it serves; 0 = it has ended instead."""
        said = os.read(fd, _READY_BYTES)
        pid = self._pipes.pop(fd)
        self._selector.unregister(fd)
        os.close(fd)
        return pid if said else 0

    def last_turn_s(self, slot: Slot) -> float:
        """When a worker's main thread or loop turned last, monotonic; 0 = it has not yet."""
        ledger = self._ledgers.get(slot.pid)
        return ledger.last_s() if ledger else 0.0

    def told(self, slot: Slot) -> Sums | None:
        """What a worker has told of its requests; None = nothing yet."""
        ledger = self._ledgers.get(slot.pid)
        return ledger.read() if ledger else None

    def end(self, slot: Slot, *, hard: bool) -> None:
        """SIGTERM, or SIGKILL."""
        self._children.signal(slot.pid, signal.SIGKILL if hard else signal.SIGTERM)

    def refuse(self, slot: Slot, retry_after_s: int) -> None:
        """Answer who waits at its socket, where no worker accepts."""
        answer = _REFUSAL % retry_after_s
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._sockets[slot.socket].accept()
                with connection, contextlib.suppress(OSError):
                    connection.setblocking(False)
                    connection.recv(_REQUEST_BYTES)  # what is left unread would cut the answer off
                    connection.sendall(answer)

    def ask_where(self, slot: Slot) -> None:
        """SIGUSR2: it says on stderr where its threads are."""
        self._children.signal(slot.pid, signal.SIGUSR2)

    def ended(self, pid: int) -> None:
        """A process has ended that may have been a worker."""
        if ledger := self._ledgers.pop(pid, None):
            ledger.close()


class Hung:
    """A round of the tree."""

    #: Pause between two looks, in s.
    every_s = 1.0

    def __init__(self) -> None:
        self._looked_s = 0.0

    def look(self, service: Service, now_s: float) -> None:
        """End silent workers. After a pause of the tree itself (a stopped machine) all get another chance."""
        slept = now_s - self._looked_s > 3 * self.every_s
        self._looked_s = now_s
        if slept:
            return
        for group in service.groups.values():
            for slot in group.of(State.SERVING, State.LEAVING):
                silent_s = now_s - max(service.last_turn_s(slot), slot.since_s)
                if silent_s > service.settings.hung_after_s:
                    group.stuck(slot, now_s, f"hangs: it has not turned for {silent_s:.0f} s", replace=True)


class Stuck:
    """A round of the tree: workers that turn, but hold as many requests as they get and end none.

    Their stacks are logged once. They are replaced if the settings say so.
    """

    #: Pause between two looks, in s.
    every_s = 1.0

    def __init__(self) -> None:
        # By process: requests that the front counts there, and since when it holds its most without another one.
        self._held: dict[int, tuple[int, float]] = {}
        self._told: set[int] = set()

    def look(self, service: Service, now_s: float) -> None:
        """Compare with the look before."""
        held: dict[int, tuple[int, float]] = {}
        rows = {(row.backend, row.server): row for row in service.front.runtime.rows()}
        for name, group in service.groups.items():
            for slot in group.of(State.SERVING):
                row = rows.get((name, slot.name))
                if row is None or row.current < max(1, row.at_once):
                    continue
                requests, since_s = self._held.get(slot.pid, (-1, 0.0))
                held[slot.pid] = row.requests, since_s if requests == row.requests else now_s
                if now_s - held[slot.pid][1] > service.settings.hung_after_s:
                    self._tell(service, group, slot, row.current, now_s)
        self._held = held
        self._told &= held.keys()

    def _tell(self, service: Service, group: Group, slot: Slot, requests: int, now_s: float) -> None:
        if slot.pid not in self._told:
            self._told.add(slot.pid)
            said = f"is stuck: it has ended none of its {requests} requests for {service.settings.hung_after_s:g} s"
            group.stuck(slot, now_s, said, replace=service.settings.replace_stuck)


class Worn:
    """A round of the tree: workers that have served enough requests, or hold too much memory, are replaced."""

    #: Pause between two looks, in s.
    every_s = 2.0

    def __init__(self) -> None:
        # By process: requests that its server of the front had counted before it came, and how many it may serve.
        self._begun: dict[int, tuple[int, int]] = {}

    def look(self, service: Service, now_s: float) -> None:
        """Replace workers over a limit, except those that are being replaced already."""
        most, most_mb = service.settings.max_requests, service.settings.max_memory_mb
        rows = {(row.backend, row.server): row.requests for row in service.front.runtime.rows()} if most else {}
        begun: dict[int, tuple[int, int]] = {}
        for name, group in service.groups.items():
            for slot in group.of(State.SERVING):
                if slot.generation != group.generation:
                    continue
                counted = rows.get((name, slot.name), 0)
                # Not all at the same time: each a little earlier, by chance.
                before, limit = self._begun.get(slot.pid, (counted, most - random.randint(0, most // 10)))
                begun[slot.pid] = min(before, counted), limit  # a front that has started again counts from 0
                served = counted - begun[slot.pid][0]
                if most and served >= limit:
                    group.worn(slot, f"has served {served} requests")
                elif most_mb and (held_mb := _resident_mb(slot.pid)) > most_mb:
                    group.worn(slot, f"holds {held_mb} MB")
        self._begun = begun


def _resident_mb(pid: int) -> int:
    """Memory of a process; 0 = it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * resource.getpagesize() // 1_000_000


# uvicorn's loop gives a sign ten times a second; a machine that is busy is late by less.
_SILENT_S: Final = 0.5


class Blocked:
    """A round of the tree, for workers whose turns are those of their event loop."""

    #: Pause between two looks, in s.
    every_s = 0.25

    def __init__(self) -> None:
        self._looked_s = 0.0
        self._kept_from: set[Slot] = set()
        # Process ids of those of which the log knows.
        self._told: set[int] = set()

    def look(self, service: Service, now_s: float) -> None:
        """Shut silent workers, open those that turn again. If all are silent all stay open."""
        slept = now_s - self._looked_s > 3 * self.every_s  # the machine was stopped, perhaps: nobody has turned
        self._looked_s = now_s
        if slept:
            return
        for name, group in service.groups.items():
            silent = set(_silent(service, group, now_s))
            if len(silent) == len([slot for slot in group.of(State.SERVING) if slot.open]):
                silent = set()
            # First: a backend without a server refuses at once.
            for slot in self._kept_from.intersection(group.slots) - silent:
                if slot.open:
                    service.front.runtime.enable(name, slot.name)
            for slot in silent:  # again each time: another front may have come
                service.front.runtime.disable(name, slot.name)
                self._tell(service, name, slot)
            self._kept_from = self._kept_from.difference(group.slots) | silent

    def _tell(self, service: Service, name: str, slot: Slot) -> None:
        """Once a process."""
        if slot.pid not in self._told:
            self._told.add(slot.pid)
            service.say(f"worker {name}/{slot.name} (pid {slot.pid}) blocks its loop: it gets nothing new meanwhile")


def _silent(service: Service, group: Group, now_s: float) -> Iterator[Slot]:
    for slot in group.of(State.SERVING):
        if slot.open and now_s - max(service.last_turn_s(slot), slot.since_s) > _SILENT_S:
            yield slot
