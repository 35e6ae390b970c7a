"""What serves together (a line-up), and one line-up after another.

The next one boots beside the one that serves, and the one before ends what it has: when a reload changes what the front
must know (lanes, groups, processes, addresses). The front before goes on with the workers that it knows, on sockets of
their own, until its clients have gone to the next one.
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from greenlane_serve.certificate import binds, files_of, global_lines
from greenlane_serve.folders import account_of
from greenlane_serve.group import Group, Slot, State
from greenlane_serve.haproxy.configuration import configuration
from greenlane_serve.haproxy.routing import DUE
from greenlane_serve.haproxy.site import FrontServer, Site
from greenlane_serve.lanes import Layout
from greenlane_serve.places import Places
from greenlane_serve.settings import ServeSettings
from greenlane_serve.trust import Trust

# Arbitrary; some 16 KB each while they say nothing.
_MOST_CONNECTIONS: Final = 10_000


@dataclass(eq=False)
class Lineup:
    """One of them. Another one takes its place when a reload changes what the front must know."""

    settings: ServeSettings
    layout: Layout
    places: Places
    # By their address, as `bind` and `tls_bind` have it.
    listeners: Mapping[str, socket.socket]
    groups: Mapping[str, Group]
    trust: Trust = field(default_factory=Trust)
    # How many.
    certificates: int = 1

    @property
    def settled(self) -> bool:
        """Every group is as it should be."""
        return all(group.settled for group in self.groups.values())

    @property
    def fds(self) -> list[int]:
        """Descriptors of the public sockets, in the order of `addresses_of`."""
        return [self.listeners[address].fileno() for address in addresses_of(self.settings)]

    @property
    def gates(self) -> list[str]:
        """The backends before its shared workers."""
        gates = [lane.gate for lane in self.layout.lanes if self.layout.gated(lane) and not lane.hard]
        return [*gates, DUE] if self.trust.due else gates

    def is_as(self, settings: ServeSettings, layout: Layout, places: Places, trust: Trust, folder: Path) -> bool:
        """Whether the front would be told the same under these."""
        had = self.settings
        if (addresses_of(settings), layout.groups) != (addresses_of(had), self.layout.groups):
            return False
        certificates = len(files_of(settings))
        there = Lineup(settings, layout, places, self.listeners, self.groups, trust, certificates)
        return configuration(there.site(folder, whole=True)) == configuration(self.site(folder, whole=True))

    def site(self, folder: Path, *, whole: bool = False, gates_before: Iterable[str] = ()) -> Site:
        """What the front is to do, as of now.

        Args:
            folder: where the sockets of the front are.
            whole: as if every worker served.
            gates_before: of the line-up before this one.
        """
        settings = self.settings
        at_once = {name: one.at_once for name, one in self.places.sets.items()}

        def server(group: Group, slot: Slot) -> FrontServer:
            return FrontServer(slot.name, slot.socket, at_once[group.name], whole or slot.open)

        servers = {name: [server(group, slot) for slot in group.slots] for name, group in self.groups.items()}
        return Site(
            self.layout, servers, binds(settings, self.fds, folder, self.certificates), folder, at_once,
            inner_binds=[f"fd@{self.listeners[address].fileno()}" for address in settings.metrics_bind],
            alive_path=settings.alive_path, account=account_of(settings.user),
            trust=self.trust, global_lines=global_lines(settings),
            health_path=settings.health_path, metrics_path=settings.metrics_path,
            life={name: whole or group.lives for name, group in self.groups.items()},
            queue_s=settings.queue_s, head_timeout_s=settings.head_timeout_s,
            retry_after_s=settings.retry_after_s, connections=_connections(),
            gates_before=[gate for gate in gates_before if gate not in self.gates],
        )  # fmt: skip


def addresses_of(settings: ServeSettings) -> tuple[str, ...]:
    """Where a service listens: `bind`, then `tls_bind`, then `metrics_bind`."""
    return *settings.bind, *settings.tls_bind, *settings.metrics_bind


def _connections() -> int:
    """Most clients at once: a connection takes two descriptors, four when its lane passes a gate."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _MOST_CONNECTIONS if most == resource.RLIM_INFINITY else max(100, min(_MOST_CONNECTIONS, (most - 200) // 2))


# Workers of a group that may die in a row before the first has served: then the application does not start.
_FIRST_TRIES: Final = 3


class Succession:
    """Line-ups beside the one that serves.

    Args:
        dismiss: called with each group whose workers have all ended.
    """

    def __init__(self, dismiss: Callable[[Group], None]) -> None:
        self.coming: Lineup | None = None
        self._dismiss = dismiss
        # With the time at which it must have ended what it has.
        self._before: list[tuple[Lineup, float]] = []
        self._ending: list[Group] = []

    def begin(self, lineup: Lineup, now_s: float) -> None:
        """Boot the workers of a next line-up; one that was on its way ends."""
        self.give_up(now_s)
        self.coming = lineup

    def give_up(self, now_s: float) -> Lineup | None:
        """End the line-up that is on its way; it."""
        given_up, self.coming = self.coming, None
        if given_up is not None:
            self._end(given_up, now_s)
        return given_up

    def leave(self, lineup: Lineup, until_s: float) -> None:
        """Let a line-up end what it has: the front before it still sends to it."""
        self._before.append((lineup, until_s))

    def step(self, now_s: float, *, fronts_leave: bool) -> None:
        """Move all of them on.

        Args:
            now_s: the time.
            fronts_leave: a front before the present one is still there.
        """
        if self.coming is not None:
            for group in self.coming.groups.values():
                group.step(now_s)
        for lineup, until_s in list(self._before):
            for group in lineup.groups.values():
                group.step(now_s)  # a dead worker is replaced: requests are still sent to its socket
            if not fronts_leave or now_s >= until_s:
                self._before.remove((lineup, until_s))
                self._end(lineup, now_s)
        for group in list(self._ending):
            group.step_stopping(now_s)
            if group.of(State.EMPTY) == group.slots:
                self._ending.remove(group)
                self._dismiss(group)

    @property
    def ready(self) -> bool:
        """The next one can serve."""
        return self.coming is not None and self.coming.settled

    @property
    def hopeless(self) -> bool:
        """The workers of the next one do not start."""
        groups = self.coming.groups.values() if self.coming else ()
        return any(group.backoff.failures >= _FIRST_TRIES for group in groups)

    @property
    def first_until_s(self) -> float | None:
        """When the first of those before must have ended; None = there is none."""
        return min((until_s for _, until_s in self._before), default=None)

    def groups(self) -> Iterator[Group]:
        """All groups of line-ups other than the present one."""
        for lineup in (*([self.coming] if self.coming else []), *(lineup for lineup, _ in self._before)):
            yield from lineup.groups.values()
        yield from self._ending

    def stop(self, now_s: float, until_s: float) -> None:
        """End them all, until then."""
        self.give_up(now_s)
        for lineup, _ in self._before:
            self._end(lineup, now_s)
        self._before.clear()
        for group in self._ending:
            group.stop(until_s)
            group.step_stopping(now_s)

    def _end(self, lineup: Lineup, now_s: float) -> None:
        for group in lineup.groups.values():
            group.stop(now_s + group.stop_s)
            self._ending.append(group)
