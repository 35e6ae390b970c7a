"""Which lane has which workers, how many places, and which gate. Pure; docs/design/0017-serve.md tells why.

A *place* is room for one request in a worker: workers times the requests that each gets at once.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from greenlane.errors import SettingsError
from greenlane.settings import Settings
from greenlane_serve.lanes import REST, FrontLane, lanes_of
from greenlane_serve.versions import version_groups

__all__ = ["FIRST_AT_ONCE", "SHARED", "Layout", "layout_of"]

#: The group, and the backend, of the workers that every soft lane may use.
SHARED: Final = "shared"
#: Requests at once per worker until something is measured. Arbitrary: some half of the knee of 5 ms CPU and 55 ms I/O.
FIRST_AT_ONCE: Final = 8


@dataclass(frozen=True)
class Layout:
    """Lanes and groups of workers."""

    # In the order in which they are tried, `REST` last.
    lanes: tuple[FrontLane, ...]
    # Group -> workers: `shared`, each hard lane, and each other version of the application.
    groups: dict[str, int]

    def group_of(self, lane: FrontLane) -> str:
        """The group whose workers serve the lane."""
        return f"lane-{lane.name}" if lane.hard else SHARED

    def most(self, lane: FrontLane, at_once: int) -> int:
        """Places that a lane may take of its group, with `at_once` requests per worker; all of them = no gate."""
        workers = self.groups[self.group_of(lane)]
        others = 0 if lane.hard else sum(one.processes for one in self.lanes if one is not lane and not one.hard)
        places = max(1, workers - others - lane.leaves) * at_once
        return min(places, lane.at_once or places)

    def gated(self, lane: FrontLane) -> bool:
        """Whether the lane has a queue of its own in front of its group's, because it may not take every place."""
        others = any(one.processes and not one.hard for one in self.lanes if one is not lane)
        return bool(lane.at_once or lane.leaves) or (others and not lane.hard)


def layout_of(settings: Settings) -> Layout:
    """The layout of the settings.

    Raises:
        SettingsError: see `lanes_of`; or more workers are kept for lanes than there are.
    """
    lanes = lanes_of(settings)
    workers = settings.workers or max(2, len(os.sched_getaffinity(0)))
    kept = sum(lane.processes for lane in lanes)
    if kept >= workers:
        rule = f"over {kept}, what the lanes keep ({_listed(lanes)}): nothing would be left for the rest"
        hint = f"set workers = {kept + 1} or more, or lower a lane's processes"
        raise SettingsError("workers", workers, rule, hint, attempted="share the workers among the lanes")
    groups = {SHARED: workers - sum(lane.processes for lane in lanes if lane.hard)}
    groups.update({f"lane-{lane.name}": lane.processes for lane in lanes if lane.hard})
    groups.update(version_groups(settings, groups[SHARED]))
    return Layout((*lanes, REST), groups)


def _listed(lanes: tuple[FrontLane, ...]) -> str:
    return ", ".join(f"{lane.name} {lane.processes}" for lane in lanes if lane.processes)
