"""How many requests each worker gets at once, and why: the configuration's figures, changed live.

One number a group, since its workers are alike. Each change has a reason; number and reason can be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from greenlane_serve.group import Group
from greenlane_serve.haproxy.routing import PLACES
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.lanes import FIRST_AT_ONCE, Layout
from greenlane_serve.settings import AtOnceRule, ServeSettings


@dataclass(frozen=True)
class Chosen:
    """What holds for a group."""

    at_once: int
    why: str


class Places:
    """The numbers of all groups. Give it the settings again when they change: what they fix wins.

    Args:
        threads: whether a worker has no more places than threads (WSGI).
    """

    def __init__(self, settings: ServeSettings, groups: Iterable[str], *, threads: bool) -> None:
        self._threads = threads
        self._groups = list(groups)
        self._sets: dict[str, Chosen] = {}
        self.read(settings)

    def read(self, settings: ServeSettings) -> None:
        """Take what the settings fix; where they fix nothing, what was measured stays."""
        #: Whether the settings leave the number to measurement.
        self.live = not settings.at_once
        first = min(FIRST_AT_ONCE, AtOnceRule.of(settings, threads=self._threads).most)
        for group in self._groups:
            if settings.at_once:
                self._sets[group] = Chosen(settings.at_once, "setting at_once")
            elif group not in self._sets or self._sets[group].why.startswith("setting"):
                self._sets[group] = Chosen(first, "nothing is measured yet")

    @property
    def sets(self) -> Mapping[str, Chosen]:
        """By group."""
        return self._sets

    def at_once(self, group: str) -> int:
        """Requests that each worker of a group gets at once."""
        return self._sets[group].at_once

    def explain(self, group: str, why: str) -> None:
        """Give another reason for the number that holds."""
        self._sets[group] = Chosen(self.at_once(group), why)

    def followed_by(self, settings: ServeSettings, groups: Iterable[str]) -> Places:
        """The numbers for other settings and groups: what was measured of a group that stays holds."""
        after = Places(settings, groups, threads=self._threads)
        if after.live:
            after._sets.update({
                name: one for name, one in self._sets.items()
                if name in after._sets and not one.why.startswith("setting")
            })  # fmt: skip
        return after

    def change(self, group: Group, number: int, why: str, layout: Layout, runtime: Runtime) -> None:
        """Set a group's number at the front, and that of each gate before it.

        When it rises the workers' come first, when it falls the gates': what is kept for a lane is never given away.

        Raises:
            ServeError: the front does not answer. The number is kept, and holds for the next front.
        """
        rises = number > self.at_once(group.name)
        self._sets[group.name] = Chosen(number, why)
        workers = [(group.name, slot.name, number) for slot in group.slots]
        gates = [
            (lane.gate, PLACES, layout.most(lane, number))
            for lane in layout.lanes
            if layout.gated(lane) and layout.group_of(lane) == group.name
        ]
        for backend, server, most in workers + gates if rises else gates + workers:
            runtime.set_at_once(backend, server, most)
