"""The parent of `greenlane serve`: listening sockets, HAProxy, groups of workers; signals, deaths, replacement.

One thread and one loop: it waits for signals, for workers that say `ready` and for what the front says, and looks by
the clock only while somebody leaves, a pause after a death runs, or a round is due. Nothing of a request passes through
it.

    TERM, INT   listen no longer, end what is in progress, then end; a second one ends at once
    HUP         read the settings again; replace every worker one by one, or all at once by another line-up
    CHLD        what died is replaced
"""

from __future__ import annotations

import contextlib
import math
import selectors
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from typing import Final

from greenlane.errors import GreenlaneError, ServeError
from greenlane_serve import folders
from greenlane_serve.certificate import Renewal, files_of
from greenlane_serve.folders import account_of
from greenlane_serve.group import Group, Slot, State, ending
from greenlane_serve.haproxy import found
from greenlane_serve.haproxy.configuration import configuration
from greenlane_serve.haproxy.front import Doorkeeper, Haproxy, Said
from greenlane_serve.lanes import Layout, layout_of
from greenlane_serve.places import Places
from greenlane_serve.processes import Children, Notify, Signals, activated, listen_also
from greenlane_serve.rounds import Rounds, SlowReaders
from greenlane_serve.settings import ServeSettings
from greenlane_serve.staff import Blocked, Hung, Staff, Stuck, Worn
from greenlane_serve.succession import Lineup, Succession, addresses_of
from greenlane_serve.trust import trust_of
from greenlane_serve.worker.ledger import Sums

_STOPS: Final = frozenset({signal.SIGTERM, signal.SIGINT})
_WATCHED: Final = (*_STOPS, signal.SIGHUP, signal.SIGCHLD)
# Longest wait when nothing is due.
_LONGEST_S: Final = 60.0
_PACKAGE: Final = "greenlane-serve"
# How often a front that ends is asked whether it has anything left; and what of `stop_s` is kept for what ends last.
_LOOK_S: Final = 0.1
_ENDING_S: Final = 2.0


class Tree:
    """One service.

    Args:
        read: the settings as they are now; called at the start and at each HUP.
        application: `module:attribute`.
        kind: `wsgi` or `asgi`.
        say: takes one line for the log.
    """

    def __init__(
        self, read: Callable[[], ServeSettings], application: str, kind: str, say: Callable[[str], None]
    ) -> None:
        self._read = read
        self._application = application
        self._kind = kind
        self._say = say
        #: Of the line-up that serves.
        self.settings = read()
        self.layout: Layout = layout_of(self.settings)
        self.places = Places(self.settings, self.layout.groups, threads=kind == "wsgi")
        self.groups: Mapping[str, Group] = {}
        self._lineup: Lineup | None = None
        self._lineups = 0
        self.reloads = 0
        self._program = found.found()
        self._version = version(_PACKAGE)
        self._notify = Notify()
        self._children = Children()
        self._selector = selectors.DefaultSelector()
        self._account = account_of(self.settings.user)
        self._staff = Staff(self._children, self._selector, application, kind, self._account)
        self._succession = Succession(self._staff.dismiss)
        self._stopping = False
        self._until_s = math.inf  # everything must have ended
        self._look_s = math.inf  # at the front that ends
        self._life: dict[str, bool] = {}  # what the front knows
        self._served = False  # has ever been whole
        self._renewing = False
        #: What is looked at by the clock while the service runs. Append before `run`.
        self._renewal = Renewal()
        looped = [Blocked()] if kind == "asgi" else []
        self.rounds = Rounds([Hung(), Stuck(), Worn(), SlowReaders(), self._renewal, *looped])

    # -- life

    def run(self) -> int:
        """Serve until told to stop; the exit code. Blocks; the main thread's only.

        Raises:
            GreenlaneError: it cannot start.
        """
        with contextlib.ExitStack() as stack:
            addresses = addresses_of(self.settings)
            listeners = listen_also(addresses, activated(addresses))
            stack.callback(self._close_listeners)
            folders.remove_left(folders.place())
            self.folder = folders.made(stack, folders.place())
            stack.callback(folders.withdraw, self.folder)
            if self._account is not None:
                self.folder.chmod(0o711)  # their sockets are below
            self._signals = Signals(_WATCHED)
            stack.callback(self._signals.close)
            self._selector.register(self._signals.fd, selectors.EVENT_READ)
            self._said = Said()
            stack.callback(self._said.close)
            self._selector.register(self._said.fd, selectors.EVENT_READ)
            self.front = Haproxy(self._program, self.folder, self._children.start, self._said.write_fd)
            self._doorkeeper = Doorkeeper(self.front, self.say, self._reap)
            stack.callback(self._kill_all)
            self._succession.begin(self._made(self.settings, self.layout, self.places, listeners), 0.0)
            while self._step():
                self._wait()
        return 0

    def _step(self) -> bool:
        """Everything that the present states ask for; whether there is a next time."""
        now_s = time.monotonic()
        self._notify.alive()
        if self._stopping:
            return self._stop_on(now_s)
        for group in self.groups.values():
            group.step(now_s)
        self._succession.step(now_s, fronts_leave=bool(self.front.leaving))
        self._doorkeeper.end_late(now_s)
        if self._succession.hopeless:
            self._refuse_coming(now_s)
        elif self._succession.ready and self._doorkeeper.may_start(now_s, served=self._served):
            self._take_over(now_s)
        absent = self.front.child is None or self._doorkeeper.deaf
        if self._lineup is not None and absent and self._doorkeeper.may_start(now_s, served=self._served):
            self._start_again(self._lineup)
        self._tell_life()
        if self.front.child is not None:  # before readiness is told: who then asks for metrics gets them
            self.rounds.go(self, now_s, self._doorkeeper.failed)
        settled = self._lineup is not None and self._lineup.settled and self._succession.coming is None
        if settled and self.front.child is not None and (self._renewing or not self._served):
            self._tell_ready()
        return True

    def _tell_life(self) -> None:
        """What health is answered by."""
        for name, group in self.groups.items():
            if self._life.get(name) is not group.lives:
                self._life[name] = group.lives
                self._doorkeeper.live(name, lives=group.lives)

    def _tell_ready(self) -> None:
        folders.announce(self.folder, addresses_of(self.settings))
        self._notify.ready()
        where = ", ".join([*self.settings.bind, *(f"{one} (TLS)" for one in self.settings.tls_bind)])
        workers = ", ".join(f"{name} {group.workers}" for name, group in self.groups.items())
        again = " again" if self._served else ""
        self.say(f"serving {self._application} ({self._kind}) on {where}{again}; workers: {workers}")
        self.reloads += self._served and self._renewing
        self._served, self._renewing = True, False

    def _wait(self) -> None:
        for key, _ in self._selector.select(self._pause_s()):
            if key.fd == self._said.fd:
                self._said.pass_on()
            elif key.fd != self._signals.fd and (pid := self._staff.hear(key.fd)):
                for group in self._all_groups():
                    group.ready(pid, time.monotonic())
        taken = self._signals.taken()
        if signal.SIGCHLD in taken:
            self._reap()
        if taken & _STOPS:
            self._stop()
        if signal.SIGHUP in taken and not self._stopping:
            self.reload()

    def _pause_s(self) -> float:
        now_s = time.monotonic()
        times = [
            now_s + (self._notify.watchdog_s or _LONGEST_S),
            *(group.next_s(now_s) for group in self._all_groups()),
        ]
        times.append(self._doorkeeper.next_s(now_s, wanted=self._lineup is not None))
        if (until_s := self._succession.first_until_s) is not None:
            times.append(until_s)
        if self._stopping:
            times.append(self._look_s if self.front.running else math.inf)
        elif self.front.child is not None:
            times.append(self.rounds.next_s(now_s))
        return max(0.0, min(times) - now_s)

    def _all_groups(self) -> chain[Group]:
        return chain(self.groups.values(), self._succession.groups())

    # -- line-ups

    def _made(
        self, settings: ServeSettings, layout: Layout, places: Places, listeners: Mapping[str, socket.socket]
    ) -> Lineup:
        trust = trust_of(settings, self._kind)
        self._renewal.take(settings, self.folder)
        self._lineups += 1
        folder = self.folder / str(self._lineups)
        folder.mkdir(mode=0o700)
        if self._account is not None:
            self._account.give(folder)
        groups = {
            name: Group(name, workers, folder, self, settings.stop_s, settings.boot_s, settings.queue_s)
            for name, workers in layout.groups.items()
        }
        for group in groups.values():
            self._staff.seat(group)
        return Lineup(settings, layout, places, listeners, groups, trust, len(files_of(settings)))

    def _take_over(self, now_s: float) -> None:
        """Let the line-up that has come serve, and the one before end what it has."""
        lineup, before = self._succession.coming, self._lineup
        assert lineup is not None
        try:
            self._start_front(lineup, gates_before=before.gates if before else ())
        except GreenlaneError as error:
            if before is None:
                raise
            self._drop_coming(now_s, error)
            return
        self._succession.coming = None
        self.settings, self.layout, self.places, self.groups = (
            lineup.settings, lineup.layout, lineup.places, lineup.groups,
        )  # fmt: skip
        self._lineup = lineup
        if before is not None:
            self._succession.leave(before, now_s + before.settings.stop_s)
            for address in set(before.listeners) - set(lineup.listeners):
                before.listeners[address].close()

    def _refuse_coming(self, now_s: float) -> None:
        """The workers of the next line-up do not start."""
        error = ServeError("start the workers", name="application", value=self._application,
                           rule="one that starts", hint="see above what the worker says")  # fmt: skip
        if self._lineup is None:
            raise error
        self._drop_coming(now_s, error)

    def _drop_coming(self, now_s: float, why: GreenlaneError | None = None) -> None:
        """End the line-up that is on its way; the one that serves goes on."""
        dropped = self._succession.give_up(now_s)
        have = self._lineup.listeners if self._lineup else {}
        for address, listener in dropped.listeners.items() if dropped else ():
            if address not in have:
                listener.close()
        if why is not None:
            self.say(f"not reloaded: {why}")
            self._renewing = False
            self._notify.ready()

    def _close_listeners(self) -> None:
        for lineup in (self._lineup, self._succession.coming):
            for listener in lineup.listeners.values() if lineup else ():
                listener.close()

    # -- the front

    def _start_front(self, lineup: Lineup, *, gates_before: Sequence[str] = ()) -> None:
        site = lineup.site(self.folder, gates_before=gates_before)
        self._life = {}  # it has changed meanwhile, perhaps
        self._doorkeeper.start(configuration(site), lineup.fds, lineup.groups.values(),
                               leave_s=self.settings.stop_s)  # fmt: skip

    def _start_again(self, lineup: Lineup) -> None:
        """Another front for what serves: there is none, or it is deaf."""
        try:
            self._start_front(lineup)
        except GreenlaneError as error:
            if self.front.child is None:
                raise
            self._doorkeeper.deaf = False
            self.say(str(error))

    def set_at_once(self, group: Group, number: int, why: str) -> None:
        """Requests that each worker of a group gets at once, from now on."""
        self._doorkeeper.tell(lambda: self.places.change(group, number, why, self.layout, self.front.runtime))

    # -- what groups ask for (`Acts`)

    def start(self, group: Group, slot: Slot) -> int:
        """Start a worker on the slot."""
        return self._staff.start(group, slot)

    def open(self, group: Group, slot: Slot) -> None:
        """Let the front give it requests, if it is the front's."""
        if self.groups.get(group.name) is group:
            self._doorkeeper.open(group, slot)

    def shut(self, group: Group, slot: Slot) -> None:
        """Let the front give it nothing new."""
        if self.groups.get(group.name) is group:
            self._doorkeeper.shut(group, slot)

    def in_progress(self, group: Group, slot: Slot) -> int:
        """Requests that it has; of a front that leaves it is not known."""
        return self._doorkeeper.in_progress(group, slot) if self.groups.get(group.name) is group else 1

    def end(self, slot: Slot, *, hard: bool) -> None:
        """SIGTERM, or SIGKILL."""
        self._staff.end(slot, hard=hard)

    def refuse(self, slot: Slot) -> None:
        """Answer who waits at its socket."""
        self._staff.refuse(slot, self.settings.retry_after_s)

    def ask_where(self, slot: Slot) -> None:
        """Let it say in the log where its threads are."""
        self._staff.ask_where(slot)

    def last_turn_s(self, slot: Slot) -> float:
        """When a worker turned last, monotonic; 0 = it has not yet."""
        return self._staff.last_turn_s(slot)

    def told(self, slot: Slot) -> Sums | None:
        """What a worker has told of its requests; None = nothing yet."""
        return self._staff.told(slot)

    def say(self, text: str) -> None:
        """One line for the log."""
        self._say(text)

    # -- reload and end

    def reload(self) -> None:
        """Read the settings again and replace every worker: one by one, or all at once where the front must change."""
        here, now_s = self._lineup, time.monotonic()
        if here is None:
            self.say("not reloaded: it has not served yet")
            return
        if (installed := version(_PACKAGE)) != self._version:
            self.say(f"{_PACKAGE} {installed} is installed, and workers run it from now on; this process and its front "
                     f"stay {self._version} until the service is started again")  # fmt: skip
        try:
            settings = self._read()
            if settings.user != self.settings.user:
                raise ServeError("read the settings again", name="user", value=settings.user,
                                 rule="as it was at the start", hint="start the service again")  # fmt: skip
            layout = layout_of(settings)
            places = self.places.followed_by(settings, layout.groups)
            self._drop_coming(now_s)
            if here.is_as(settings, layout, places, trust_of(settings, self._kind), self.folder):
                self._renewal.take(settings, self.folder)
                self._renew(here, settings)
                return
            lineup = self._made(settings, layout, places, listen_also(addresses_of(settings), here.listeners))
        except GreenlaneError as error:
            self.say(f"not reloaded: {error}")
            return
        self.say("booting other workers beside those that serve")
        self._notify.reloading()
        self._renewing = True
        self._succession.begin(lineup, now_s)

    def _renew(self, here: Lineup, settings: ServeSettings) -> None:
        self.say("replacing every worker, one by one")
        self._notify.reloading()
        self.settings = here.settings = settings
        self.places.read(settings)
        self._renewing = True
        self.rounds.all_due()  # what has changed beside the settings is looked at now
        for group in self.groups.values():
            group.stop_s, group.boot_s, group.queue_s = settings.stop_s, settings.boot_s, settings.queue_s
            group.renew()

    def _stop(self) -> None:
        if self._stopping:
            self.say("ending at once")
            self._kill_all()
            return
        self._stopping = True
        now_s = time.monotonic()
        self._until_s, self._look_s = now_s + self.settings.stop_s, now_s + _LOOK_S
        self._notify.stopping()
        self._close_listeners()
        self._doorkeeper.close()

    def _stop_on(self, now_s: float) -> bool:
        """First the front: once nothing is in progress it ends, and idle connections with it. Then the workers."""
        if self.front.running and now_s >= self._look_s:
            late = now_s >= self._until_s - min(_ENDING_S, self.settings.stop_s / 4)
            self._look_s = self._doorkeeper.end(now_s) if late or self._doorkeeper.idle() else now_s + _LOOK_S
        if self.front.running:
            return True
        for group in self.groups.values():
            group.stop(self._until_s)
            group.step_stopping(now_s)
        self._succession.stop(now_s, self._until_s)
        return any(group.of(State.EMPTY) != group.slots for group in self._all_groups()) or self.front.running

    def _kill_all(self) -> None:
        for pid, code in self._children.kill_all():
            self._ended(pid, code, expected=True)

    def _reap(self) -> None:
        for pid, code in self._children.reap():
            self._ended(pid, code, expected=False)

    def _ended(self, pid: int, code: int, *, expected: bool) -> None:
        now_s = time.monotonic()
        if self.front.died(pid, code):
            if not self._stopping and not expected:
                wait_s = self._doorkeeper.died(now_s)
                pause = f" in {wait_s:g} s" if wait_s else ""
                self.say(f"the front (pid {pid}) {ending(code)}; another one starts{pause}")
            return
        for group in self._all_groups():
            group.died(pid, code, now_s, expected=expected)
        self._staff.ended(pid)
