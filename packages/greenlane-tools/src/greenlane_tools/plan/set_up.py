"""How a service is served, as the simulator takes it: host, processes, queue, lanes, limits, what the machine adds.

Immutable. Its JSON has the field names of the classes here; what-ifs change that JSON, and `from_json` takes it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Final

from greenlane.errors import PlanError
from greenlane.settings.refusal import nearest
from greenlane_tools.plan.costs import Costs, costs_of
from greenlane_tools.plan.profile import HOSTS, LOOPS, Profile

__all__ = ["KINDS", "PLACES", "QUEUES", "SetUpLane", "SetUp", "present"]

#: One listening socket for all; the one queue of `greenlane serve`.
QUEUES: Final = ("accept", "central")
KINDS: Final = ("soft", "hard")
PLACES: Final = ("inline", "thread", "process")
#: The interpreter's own turn. Greenlane's while a permit is held is a rule of production: `plan.simulation`.
SWITCH_MS: Final = 5.0
#: What servers have when nobody says a number: gunicorn's gevent worker, and its threads; Greenlane's worker.
CONNECTIONS: Final = 1000
THREADS: Final = 64
_STOCK_THREADS: Final = 1


@dataclass(frozen=True, slots=True)
class SetUpLane:
    """Requests with a common rule. Names and meanings are those of `[lanes.NAME]` in greenlane.toml."""

    name: str
    routes: tuple[str, ...]
    kind: str = "soft"
    processes: int = 0
    priority: int = 0
    at_once: int = 0
    deadline_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class SetUp:
    """See the module. 0 = no such bound, unless it is said otherwise."""

    #: One of `greenlane_tools.plan.profile.HOSTS`.
    host: str
    processes: int
    cores: int
    queue: str = "accept"
    #: Of the interpreter; with permits, while none is held.
    switch_interval_ms: float = SWITCH_MS
    #: CPU permits of a process; host "permits" only; 0 = as production chooses (one under the GIL).
    permits: int = 0
    #: Requests in progress in a process (connections, threads); more wait before it, where nobody sees them.
    limit: int = 0
    #: Central queue: requests that a process gets at once; 0 = as production's rule sets it.
    at_once: int = 0
    #: Refuse early what would come too late.
    shed: bool = False
    lanes: tuple[SetUpLane, ...] = ()
    #: Calls of an upstream at once, by its name: a process's own limit, or under Celery a bulkhead over all.
    upstream_limits: Mapping[str, int] = field(default_factory=dict)
    breakers: bool = False
    #: Where heavy work of a route runs: thread (the process's one native thread) or process (one of `pool`).
    placement: Mapping[str, str] = field(default_factory=dict)
    pool: int = 1
    costs: Costs = field(default_factory=Costs)

    def to_json(self) -> dict[str, Any]:
        """Its table: what `from_json` takes, and core."""
        table = asdict(self)
        table["lanes"] = [{**each, "routes": list(each["routes"])} for each in table["lanes"]]
        return table

    @classmethod
    def from_json(cls, table: Mapping[str, Any]) -> SetUp:
        """A set-up from its table.

        Raises: PlanError that names the field.
        """
        values = dict(table)
        known = [each.name for each in fields(cls)]
        for name in values:
            if name not in known:
                raise _wrong(name, values[name], f"a field of a set-up: {', '.join(known)}", nearest(name, known))
        values["lanes"] = tuple(_lane(each) for each in values.get("lanes", ()))
        values["costs"] = Costs(**values["costs"]) if values.get("costs") else Costs()
        found = cls(**values)
        _check(found)
        return found

    @property
    def loops(self) -> bool:
        """Whether one loop runs all requests of a process."""
        return self.host in LOOPS

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


def _lane(table: Mapping[str, Any]) -> SetUpLane:
    known = [each.name for each in fields(SetUpLane)]
    for name in table:
        if name not in known:
            raise _wrong(f"lanes.{name}", table[name], f"a field of a lane: {', '.join(known)}", nearest(name, known))
    return replace(SetUpLane(name="", routes=()), **{**table, "routes": tuple(table.get("routes", ()))})


def _check(set_up: SetUp) -> None:
    rules: tuple[tuple[str, object, bool, str], ...] = (
        ("host", set_up.host, set_up.host in HOSTS, f"one of {', '.join(HOSTS)}"),
        ("queue", set_up.queue, set_up.queue in QUEUES, f"one of {', '.join(QUEUES)}"),
        ("processes", set_up.processes, set_up.processes >= 1, "a whole number of at least 1"),
        ("cores", set_up.cores, set_up.cores >= 1, "a whole number of at least 1"),
        ("limit", set_up.limit, set_up.limit >= 0, "a whole number of at least 0"),
        ("at_once", set_up.at_once, set_up.at_once >= 0, "a whole number of at least 0"),
    )
    for name, value, well, rule in rules:
        if not well:
            raise _wrong(name, value, rule)
    for lane in set_up.lanes:
        if lane.kind not in KINDS:
            raise _wrong(f"lanes.{lane.name}.kind", lane.kind, f"one of {', '.join(KINDS)}")
    own = sum(lane.processes for lane in set_up.hard)
    if own >= set_up.processes and set_up.hard:
        rule = f"more than the {own} that hard lanes have alone"
        raise _wrong("processes", set_up.processes, rule, "give it one process more, or make the lane soft")


def _wrong(name: str, value: object, rule: str, hint: str = "") -> PlanError:
    return PlanError("read the set-up", name=name, value=value, rule=rule, hint=hint)
