"""What serves together: settings, layout, groups of workers, the public sockets; and the front's site made of them."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from greenlane.settings import Settings
from greenlane_serve.group import Group, Slot
from greenlane_serve.haproxy import due, tls
from greenlane_serve.haproxy.configuration import configuration
from greenlane_serve.haproxy.gates import gate_name
from greenlane_serve.haproxy.site import Server, Site
from greenlane_serve.layout import Layout
from greenlane_serve.places import Places
from greenlane_serve.trust import Trust

__all__ = ["Lineup", "addresses_of"]

# Arbitrary; some 16 KB each while they say nothing.
_MOST_CONNECTIONS: Final = 10_000


@dataclass(eq=False)
class Lineup:
    """One of them. Another one takes its place when a reload changes what the front must know."""

    settings: Settings
    layout: Layout
    places: Places
    # By their address, as `bind` and `tls_bind` have it.
    listeners: Mapping[str, socket.socket]
    groups: Mapping[str, Group]
    trust: Trust = field(default_factory=Trust)

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
        gates = [gate_name(lane) for lane in self.layout.lanes if self.layout.gated(lane) and not lane.hard]
        return [*gates, due.NAME] if self.trust.due else gates

    def is_as(self, settings: Settings, layout: Layout, places: Places, trust: Trust, folder: Path) -> bool:
        """Whether the front would be told the same under these."""
        had = self.settings
        told = (settings.bind, settings.tls_bind, settings.versions, layout.groups)
        if told != (had.bind, had.tls_bind, had.versions, self.layout.groups):
            return False
        there = Lineup(settings, layout, places, self.listeners, self.groups, trust)
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

        def server(group: Group, slot: Slot) -> Server:
            return Server(slot.name, slot.socket, at_once[group.name], whole or slot.open)

        servers = {name: [server(group, slot) for slot in group.slots] for name, group in self.groups.items()}
        return Site(
            self.layout, servers, tls.binds(settings, self.fds, folder), folder, at_once,
            trust=self.trust, global_lines=tls.global_lines(settings),
            health_path=settings.health_path, metrics_path=settings.metrics_path,
            queue_s=settings.queue_s, head_timeout_s=settings.head_timeout_s,
            retry_after_s=settings.retry_after_s, connections=_connections(), version_header=settings.version_header,
            gates_before=[gate for gate in gates_before if gate not in self.gates],
        )  # fmt: skip


def addresses_of(settings: Settings) -> tuple[str, ...]:
    """Where a service listens: `bind`, then `tls_bind`."""
    return *settings.bind, *settings.tls_bind


def _connections() -> int:
    """Most clients at once: a connection takes two descriptors, four when its lane passes a gate."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return _MOST_CONNECTIONS if most == resource.RLIM_INFINITY else max(100, min(_MOST_CONNECTIONS, (most - 200) // 2))
