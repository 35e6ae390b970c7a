"""The parent of `greenlane serve`: listening sockets, HAProxy, groups of workers; signals, deaths, replacement.

One thread and one loop: it waits for signals and for workers that say `ready`, and looks by the clock only while
somebody leaves or a pause after a death runs. Nothing of a request passes through it.

    TERM, INT   listen no longer, end what is in progress, then end; a second one ends at once
    HUP         read the settings again, replace every worker one by one
    CHLD        what died is replaced
"""

from __future__ import annotations

import contextlib
import math
import os
import resource
import selectors
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from greenlane.errors import FleetError, GreenlaneError
from greenlane.fleet.backoff import Backoff
from greenlane.fleet.certificate import Certificate, Renewal
from greenlane.fleet.child import Child, reaped
from greenlane.fleet.group import Group, Slot, State, ending
from greenlane.fleet.haproxy import found, tls
from greenlane.fleet.haproxy.configuration import Server, Site, configuration
from greenlane.fleet.haproxy.front import Front
from greenlane.fleet.layout import Layout, layout_of
from greenlane.fleet.listeners import listen
from greenlane.fleet.notify import Notify
from greenlane.fleet.places import Places
from greenlane.fleet.rounds import Round
from greenlane.fleet.signals import Signals
from greenlane.fleet.trust import trust_of
from greenlane.settings import Settings

__all__ = ["Tree"]

_STOPS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_WATCHED: Final = (*_STOPS, signal.SIGHUP, signal.SIGCHLD)
# How often a worker that leaves is asked whether it has anything left, and one that ends is looked at.
_LEAVING_S: Final = 0.02
_STOPPING_S: Final = 0.2
# HAProxy opens its runtime socket before it forks anything: some 20 ms.
_FRONT_S: Final = 10.0
# Workers of a group that may die in a row before the first has served: then the application does not start.
_FIRST_TRIES: Final = 3
# Arbitrary; some 16 KB each while they say nothing.
_MOST_CONNECTIONS: Final = 10_000


class Tree:
    """One service.

    Args:
        read: the settings as they are now; called at the start and at each HUP.
        application: `module:attribute`.
        kind: `wsgi` or `asgi`.
        say: takes one line for the log.
    """

    def __init__(self, read: Callable[[], Settings], application: str, kind: str, say: Callable[[str], None]) -> None:
        self._read = read
        self._application = application
        self._kind = kind
        self._say = say
        self.settings = read()
        self.layout: Layout = layout_of(self.settings)
        self.trust = trust_of(self.settings, kind)
        self.places = Places(self.settings, self.layout.groups)
        self._program = found.found()
        self._notify = Notify()
        self._front_backoff = Backoff()
        self._front_since_s = 0.0
        self._children: dict[int, Child] = {}
        self._worker_sockets: dict[Path, socket.socket] = {}
        self._pipes: dict[int, int] = {}  # read end -> pid of the worker that will say so
        self._selector = selectors.DefaultSelector()
        self._stopping = False
        self._ending = False
        self._until_s = math.inf
        self._served = False  # has ever been whole
        self._renewing = False
        self._number = 0
        #: What is looked at by the clock while the service runs. Append before `run`.
        self.rounds: list[Round] = []
        self._round_s: dict[Round, float] = {}

    # -- life

    def run(self) -> int:
        """Serve until told to stop; the exit code. Blocks; the main thread's only.

        Raises:
            GreenlaneError: it cannot start.
        """
        with contextlib.ExitStack() as stack:
            self._listeners = listen((*self.settings.bind, *self.settings.tls_bind))
            for listener in self._listeners:
                stack.callback(listener.close)
            self.folder = Path(tempfile.mkdtemp(prefix="greenlane-"))
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            self._read_certificate()
            self._signals = Signals(_WATCHED)
            stack.callback(self._signals.close)
            self._selector.register(self._signals.fd, selectors.EVENT_READ)
            fds = [listener.fileno() for listener in self._listeners]
            self.front = Front(self._program, self.folder, fds, self._child)
            self.groups: Mapping[str, Group] = {
                name: self._group(name, workers) for name, workers in self.layout.groups.items()
            }
            stack.callback(self._kill_all)
            while self._step():
                self._wait()
        return 0

    def _read_certificate(self) -> None:
        if self.settings.tls_bind:
            certificate = Certificate(self.settings, self.folder / tls.CERTIFICATE)
            certificate.write()
            self.rounds.append(Renewal(certificate))

    def _step(self) -> bool:
        """Everything that the present states ask for; whether there is a next time."""
        now_s = time.monotonic()
        if self._stopping:
            return self._stop_on(now_s)
        for group in self.groups.values():
            group.step(now_s)
            if not self._served and group.backoff.failures >= _FIRST_TRIES:
                hint = "see above what the worker says"
                raise FleetError("start the workers", name="application", value=self._application,
                                 rule="one that starts", hint=hint)  # fmt: skip
        settled = all(group.settled for group in self.groups.values())
        if self._front_backoff.failures >= _FIRST_TRIES and not self._served:
            raise FleetError("start the front", name="haproxy", value=self._program, rule="one that stays",
                             hint="see above what it says")  # fmt: skip
        if self.front.child is None and (settled or self._served) and self._front_backoff.may_try(now_s):
            self._start_front(now_s)
        if self._served and self.front.child is not None:
            self._go_round(now_s)
        if settled and self.front.child is not None and (self._renewing or not self._served):
            self._tell_ready()
        return True

    def _go_round(self, now_s: float) -> None:
        for one in self.rounds:
            if now_s >= self._round_s.get(one, 0.0):
                self._round_s[one] = now_s + one.every_s
                try:
                    one.look(self, now_s)
                except GreenlaneError as error:
                    self.say(str(error))

    def _tell_ready(self) -> None:
        self._notify.ready()
        where = ", ".join([*self.settings.bind, *(f"{one} (TLS)" for one in self.settings.tls_bind)])
        workers = ", ".join(f"{name} {group.workers}" for name, group in self.groups.items())
        again = " again" if self._renewing else ""
        self.say(f"serving {self._application} ({self._kind}) on {where}{again}; workers: {workers}")
        self._served, self._renewing = True, False

    def _wait(self) -> None:
        for key, _ in self._selector.select(self._pause_s()):
            if key.fd != self._signals.fd:
                self._hear(key.fd)
        taken = self._signals.taken()
        if signal.SIGCHLD in taken:
            self._reap()
        if taken & _STOPS:
            self._stop()
        if signal.SIGHUP in taken and not self._stopping:
            self.reload()

    def _pause_s(self) -> float | None:
        now_s = time.monotonic()
        pauses = [60.0]
        for group in self.groups.values():
            if group.of(State.LEAVING):
                pauses.append(_LEAVING_S)
            if group.of(State.STOPPING):
                pauses.append(_STOPPING_S)
            if not group.settled:
                pauses.append(group.backoff.until_s - now_s if group.backoff.until_s > now_s else 60.0)
        if self.front.child is None and self._served:
            pauses.append(self._front_backoff.until_s - now_s)
        if self._stopping:
            pauses.append(self._until_s - now_s)
        elif self._served:
            pauses += [due_s - now_s for due_s in self._round_s.values()]
        return max(0.0, min(pauses))

    def _group(self, name: str, workers: int) -> Group:
        group = Group(name, workers, self.folder, self, self.settings.stop_s)
        for slot in group.slots:
            (self._worker_sockets[slot.socket],) = listen([str(slot.socket)])
        return group

    # -- the front

    def site(self, *, whole: bool = False) -> Site:
        """What the front is to do, as of now; `whole` = with every worker serving."""
        at_once = {name: one.at_once for name, one in self.places.sets.items()}

        def server(group: Group, slot: Slot) -> Server:
            return Server(slot.name, slot.socket, at_once[group.name], whole or slot.open)

        servers = {name: [server(group, slot) for slot in group.slots] for name, group in self.groups.items()}
        settings = self.settings
        binds = tls.binds(settings, [listener.fileno() for listener in self._listeners], self.folder)
        return Site(
            self.layout, servers, binds, self.folder, at_once, trust=self.trust,
            global_lines=tls.global_lines(settings),
            health_path=settings.health_path, queue_s=settings.queue_s, head_timeout_s=settings.head_timeout_s,
            retry_after_s=settings.retry_after_s, connections=_connections(),
        )  # fmt: skip

    def set_at_once(self, group: Group, number: int, why: str) -> None:
        """Requests that each worker of a group gets at once, from now on."""
        self._tell(lambda: self.places.change(group, number, why, self.layout, self.front.runtime))

    def _start_front(self, now_s: float) -> None:
        self.front.run(configuration(self.site()))
        self._told = configuration(self.site(whole=True))
        self._front_since_s = now_s
        until_s = now_s + _FRONT_S
        while time.monotonic() < until_s and self.front.child is not None:
            with contextlib.suppress(FleetError):
                self.front.runtime.ask("show version")
                break
            time.sleep(0.01)
            self._reap()
        for group in self.groups.values():  # what came or went meanwhile
            for slot in group.slots:
                (self.open if slot.open else self.shut)(group, slot)

    # -- what groups ask for (`Acts`)

    def start(self, group: Group, slot: Slot) -> int:
        """Start a worker on the slot."""
        read_fd, write_fd = os.pipe2(os.O_CLOEXEC)
        socket_fd = self._worker_sockets[slot.socket].fileno()
        self._number += 1
        command = [
            sys.executable, "-m", "greenlane.fleet.workers", self._kind, self._application, str(socket_fd),
            str(self._number), str(write_fd), str(group.stop_s),
        ]  # fmt: skip
        try:
            child = self._child(command, fds=(write_fd, socket_fd))
        finally:
            os.close(write_fd)
        self._pipes[read_fd] = child.pid
        self._selector.register(read_fd, selectors.EVENT_READ)
        return child.pid

    def open(self, group: Group, slot: Slot) -> None:
        """Let the front give it requests."""
        self._tell(lambda: self.front.runtime.enable(group.name, slot.name))

    def shut(self, group: Group, slot: Slot) -> None:
        """Let the front give it nothing new."""
        self._tell(lambda: self.front.runtime.disable(group.name, slot.name))

    def in_progress(self, group: Group, slot: Slot) -> int:
        """Requests that it has; those of a front that finishes are not counted."""
        if self.front.child is None:
            return 0
        try:
            return self.front.runtime.in_progress(group.name, slot.name)
        except FleetError:
            return 1

    def end(self, slot: Slot, *, hard: bool) -> None:
        """SIGTERM, or SIGKILL."""
        if child := self._children.get(slot.pid):
            child.signal(signal.SIGKILL if hard else signal.SIGTERM)

    def _tell(self, command: Callable[[], None]) -> None:
        """Nothing while no front runs: one that starts is told by its configuration."""
        if self.front.child is None:
            return
        try:
            command()
        except FleetError as error:
            self.say(str(error))

    def say(self, text: str) -> None:
        """One line for the log."""
        self._say(text)

    # -- reload and end

    def reload(self) -> None:
        """Read the settings again and replace every worker, one by one."""
        try:
            settings = self._read()
            layout = layout_of(settings)
            trust = trust_of(settings, self._kind)
        except GreenlaneError as error:
            self.say(f"not reloaded: {error}")
            return
        if layout.groups != self.layout.groups or _sockets(settings) != _sockets(self.settings):
            self.say("not reloaded: bind, TLS's files, workers and the processes of lanes need a restart")
            return
        self.say("replacing every worker, one by one")
        self._notify.reloading()
        self.settings, self.layout, self.trust = settings, layout, trust
        self._round_s.clear()  # what has changed beside the settings is looked at now
        self.places.read(settings)
        self._renewing = True
        for group in self.groups.values():
            group.renew()
        if self.front.child is not None and configuration(self.site(whole=True)) != self._told:
            self._start_front(time.monotonic())

    def _stop(self) -> None:
        if self._stopping:
            self.say("ending at once")
            self._kill_all()
            return
        self._stopping = True
        self._until_s = time.monotonic() + self.settings.stop_s
        self._notify.stopping()
        for listener in self._listeners:
            listener.close()
        self.front.finish()

    def _stop_on(self, now_s: float) -> bool:
        if self.front.running:
            if now_s < self._until_s:
                return True
            self._until_s = math.inf
            self.front.end()
        for group in self.groups.values():
            group.stop(now_s)
            group.step_stopping(now_s)
        return any(group.of(*State) != group.of(State.EMPTY) for group in self.groups.values()) or self.front.running

    def _kill_all(self) -> None:
        self._ending = True
        for child in list(self._children.values()):
            child.signal(signal.SIGKILL)
        while self._children:
            self._reap()
            time.sleep(0.005)

    # -- children

    def _child(self, command: Sequence[str], *, fds: Sequence[int] = ()) -> Child:
        child = Child(command, fds=fds)
        self._children[child.pid] = child
        return child

    def _hear(self, fd: int) -> None:
        said = os.read(fd, 64)
        pid = self._pipes.pop(fd)
        self._selector.unregister(fd)
        os.close(fd)
        if said:
            for group in self.groups.values():
                group.ready(pid, time.monotonic())

    def _reap(self) -> None:
        now_s = time.monotonic()
        for pid, code in reaped():
            child = self._children.pop(pid, None)
            if child is None:
                continue  # an orphan that came to us as PID 1
            child.ended(code)
            if self.front.died(pid, code):
                if not self._stopping and not self._ending:
                    wait_s = self._front_backoff.failed(now_s, now_s - self._front_since_s)
                    pause = f" in {wait_s:g} s" if wait_s else ""
                    self.say(f"the front (pid {pid}) {ending(code)}; another one starts{pause}")
                continue
            for group in self.groups.values():
                group.died(pid, code, now_s, expected=self._ending)


def _sockets(settings: Settings) -> tuple[object, ...]:
    return settings.bind, settings.tls_bind, settings.tls_certificate, settings.tls_key


def _connections() -> int:
    """Most clients at once: a connection takes two descriptors, four when its lane passes a gate."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _MOST_CONNECTIONS if most == resource.RLIM_INFINITY else max(100, min(_MOST_CONNECTIONS, (most - 200) // 2))
