"""How a service is served, as the simulator takes it: host, processes, queue, lanes, limits, what the machine adds.

Immutable. Its JSON has the field names of the classes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from greenlane_tools.plan.costs import Costs, costs_of
from greenlane_tools.plan.profile import Profile

__all__ = ["SetUp", "SetUpLane", "present"]

#: The interpreter's own turn. Greenlane's while a permit is held is a rule of production: `plan.simulation`.
SWITCH_MS: Final = 5.0
#: Defaults of servers: gunicorn's gevent worker, and its threads; Greenlane's worker.
CONNECTIONS: Final = 1000
THREADS: Final = 64
_STOCK_THREADS: Final = 1


@dataclass(frozen=True, slots=True)
class SetUpLane:
    """Requests with a common rule. Names and meanings are those of `[lanes.NAME]` in greenlane.toml."""

    name: str
    routes: tuple[str, ...]
    #: "soft" or "hard".
    kind: str = "soft"
    processes: int = 0
    priority: int = 0


@dataclass(frozen=True, slots=True)
class SetUp:
    """See the module. 0 = no such bound, unless stated otherwise."""

    #: One of `greenlane_tools.plan.profile.HOSTS`.
    host: str
    processes: int
    cores: int
    #: "accept": one listening socket for all; "central": the one queue of `greenlane serve`.
    queue: str = "accept"
    #: Of the interpreter; with permits, while none is held.
    switch_interval_ms: float = SWITCH_MS
    #: Requests in progress in a process (connections, threads); more wait before it, where nobody sees them.
    limit: int = 0
    #: Refuse early what would come too late.
    shed: bool = False
    lanes: tuple[SetUpLane, ...] = ()
    #: Calls of an upstream at once, by its name: a bulkhead over all processes, of Celery only.
    upstream_limits: Mapping[str, int] = field(default_factory=dict)
    #: Where heavy work of a route runs: thread (the process's one native thread) or process (one of `pool`).
    placement: Mapping[str, str] = field(default_factory=dict)
    pool: int = 1
    costs: Costs = field(default_factory=Costs)

    def to_json(self) -> dict[str, Any]:
        """What the simulator takes."""
        table = asdict(self)
        table["lanes"] = [{**each, "routes": list(each["routes"])} for each in table["lanes"]]
        return table

    @property
    def hard(self) -> tuple[SetUpLane, ...]:
        """Lanes with processes that nobody else uses."""
        return tuple(lane for lane in self.lanes if lane.kind == "hard")


def present(profile: Profile) -> SetUp:
    """How the profile's service is served now, as far as the profile knows."""
    limit = profile.slots or {"gevent": CONNECTIONS, "threads": _STOCK_THREADS, "permits": THREADS}.get(profile.host, 0)
    return SetUp(
        host=profile.host,
        processes=profile.processes,
        cores=max(profile.cores, 1),
        switch_interval_ms=_own_switch_ms(profile),
        limit=limit,
        # Only what has a deadline is ever refused.
        shed=profile.host == "permits" and any(route.deadline_ms for route in profile.routes),
        costs=costs_of(profile, profile.host, front=False),
    )


def _own_switch_ms(profile: Profile) -> float:
    """The process' own. A permit may have been held when the recording looked: what is shorter may be that one's."""
    recorded_ms = profile.switch_interval_ms or SWITCH_MS
    return max(recorded_ms, SWITCH_MS) if profile.host == "permits" else recorded_ms
