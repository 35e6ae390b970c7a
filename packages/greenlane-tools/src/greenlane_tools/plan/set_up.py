"""How a service is served, as the simulator takes it: host, processes, queue, lanes, limits, what the machine adds.

Immutable. Its JSON has the field names of the classes here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from greenlane_tools.plan.profile import LOOPS, Profile

# --- What a host adds beside the requests' own work, where nobody has measured it: defaults, each with its source.


#: CPU of a request that does nothing, us: gunicorn 27 on one core, gevent 4,479 a second, 64 threads 2,847 (a hand-over
#: from the poller to a pool, and back); uvicorn.
DISPATCH_US: Final[Mapping[str, float]] = {"gevent": 223.0, "threads": 351.0, "permits": 351.0, "asyncio": 150.0}
#: HAProxy before the workers: two hops over loopback (docs/design/0017-serve.md).
FRONT_US: Final = 150.0
#: From one thread to the next: a futex, a wake-up, a cold cache (docs/design/0021-many-who-want-the-gil.md).
SWITCH_US: Final = 25.0
#: How often a thread loses the GIL in short calls, where others wait for it. The one that accepts, for a request, and
#: the one that runs it, before its first line and for its answer: once in the 5 and 8 calls that strace of gunicorn
#: 27's gthread counts (docs/plan.md). A GET of an upstream by http.client with a time-out: 0.4 of its 10, as calls of a
#: series lose it on a machine with an idle core. With an upstream on the same machine 0.05: that is a benchmark's.
DOOR_RELEASES: Final = 1
REQUEST_RELEASES: Final = 1
CALL_RELEASES: Final = 4


@dataclass(frozen=True, slots=True)
class Costs:
    """What the machine adds; see `greenlane_tools.plan.simulation`."""

    #: CPU from one thread to the next.
    switch_us: float = 0.0
    #: CPU of a request beside its own.
    dispatch_us: float = 0.0
    #: Latency on the way to the process and back.
    front_us: float = 0.0
    door_releases: int = 0
    request_releases: int = 0
    call_releases: int = 0


def costs_of(profile: Profile, host: str, *, front: bool) -> Costs:
    """What `host` adds to the profile's requests; `front`: with HAProxy before it."""
    more_us = DISPATCH_US.get(host, 0.0) - DISPATCH_US.get(profile.host, 0.0) if host != profile.host else 0.0
    served = host in ("threads", "permits")
    # A loop's recording does not show that a thread gives the GIL away to send and to wait; one of threads does.
    calls = CALL_RELEASES if profile.host in LOOPS and host not in LOOPS else 0
    return Costs(
        switch_us=0.0 if host in LOOPS else SWITCH_US,
        dispatch_us=max(0.0, more_us),
        front_us=FRONT_US if front else 0.0,
        door_releases=DOOR_RELEASES if served else 0,
        request_releases=REQUEST_RELEASES if served else 0,
        call_releases=calls,
    )


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
