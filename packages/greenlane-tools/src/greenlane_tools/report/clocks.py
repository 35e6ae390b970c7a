"""Several clocks for one time: the upstream's beside the application's; arrival, spawn and handler; deadlines.

Branches of a job against its deadline: which call was not there in time, and whether its reply was.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from greenlane_tools.reader.rows import Call, Job
from greenlane_tools.report.split import nearest, neighbours

__all__ = ["Branch", "Clock", "RouteClocks", "UpstreamClocks", "branches_of", "route_clocks", "upstreams"]


class Clock(NamedTuple):
    """Percentiles of what one clock says, ns."""

    p50_ns: int
    p99_ns: int


@dataclass(frozen=True)
class UpstreamClocks:
    """Calls of one operation of one upstream by one route. Times in ns; None = no call's reply has a known moment."""

    route: str
    upstream: str
    operation: str
    #: Ascending by what the application saw.
    calls: Sequence[Call]
    #: Calls whose reply has a known moment.
    known: int
    #: What the application saw: from the send until its code went on.
    seen: Clock
    #: On the wire: from the send until the reply was there. The span as it should be.
    wire: Clock | None
    #: By the upstream's own clock, of the calls whose reply says it.
    own: Clock | None
    #: The reply was there, the code did not go on: the process's own time.
    late: Clock | None
    #: Means of the calls around the p99 of what was seen: on the wire, then in the process.
    slow_wire_ns: float
    slow_late_ns: float
    #: Replies that were there in time but given to the code after the deadline, as if nothing were wrong.
    late_resumed: int
    #: Replies that came after the deadline and were given to the code nonetheless.
    late_replied: int
    with_deadline: int
    failed: int

    @property
    def factor(self) -> float:
        """How many times as long as the upstream the process took, in the slow calls."""
        return self.slow_late_ns / self.slow_wire_ns if self.slow_wire_ns > 0 else 0.0

    @property
    def late_ns(self) -> int:
        """Time of all calls between ready and resumed."""
        return sum(call.late_ns for call in self.calls if call.ready_ns)

    @property
    def inflated_frac(self) -> float:
        """Of what was seen, the share that no upstream spent; 0 to 1."""
        seen = sum(call.to_ns - call.from_ns for call in self.calls if call.ready_ns)
        return self.late_ns / seen if seen else 0.0


@dataclass(frozen=True)
class RouteClocks:
    """One route's latencies by the clock that starts them; None = that clock was not read."""

    route: str
    jobs: int
    #: Which clocks the arrivals were read from, most frequent first.
    clocks: Sequence[str]
    arrival: Clock
    spawn: Clock | None
    handler: Clock


def upstreams(calls: Iterable[Call]) -> list[UpstreamClocks]:
    """Those first whose replies waited longest in the process."""
    grouped: dict[tuple[str, str, str], list[Call]] = {}
    for call in calls:
        grouped.setdefault((call.route, call.upstream, call.operation), []).append(call)
    found = [_upstream(key, sorted(of, key=lambda call: call.to_ns - call.from_ns)) for key, of in grouped.items()]
    return sorted(found, key=lambda each: (-each.late_ns, each.route, each.upstream, each.operation))


def route_clocks(jobs: Iterable[Job]) -> list[RouteClocks]:
    """Routes by the difference that the clock makes to all their jobs, largest first."""
    grouped: dict[str, list[Job]] = {}
    for job in jobs:
        grouped.setdefault(job.route, []).append(job)
    found = [_clocks(route, of) for route, of in grouped.items()]
    return sorted(found, key=lambda each: ((each.handler.p99_ns - each.arrival.p99_ns) * each.jobs, each.route))


def late(call: Call) -> bool:
    """Whether its data reached the code after its deadline without an error."""
    return call.outcome == "ok" and 0 < call.deadline_ns < max(call.to_ns, call.ready_ns)


def _upstream(key: tuple[str, str, str], calls: Sequence[Call]) -> UpstreamClocks:
    known = [call for call in calls if call.ready_ns]
    slow = neighbours(known, 0.99) if known else []
    after = [call for call in calls if late(call)]
    replied = sum(call.ready_ns > call.deadline_ns for call in after)
    return UpstreamClocks(
        *key,
        calls=calls,
        known=len(known),
        seen=_clock([call.to_ns - call.from_ns for call in calls]),
        wire=_clock(call.wire_ns for call in known) if known else None,
        own=_clock(own) if (own := [call.own_ns for call in calls if call.own_ns]) else None,
        late=_clock(call.late_ns for call in known) if known else None,
        slow_wire_ns=sum(call.wire_ns for call in slow) / max(1, len(slow)),
        slow_late_ns=sum(call.late_ns for call in slow) / max(1, len(slow)),
        late_resumed=len(after) - replied,
        late_replied=replied,
        with_deadline=sum(call.deadline_ns > 0 for call in calls),
        failed=sum(call.outcome != "ok" for call in calls),
    )


def _clock(times: Iterable[int]) -> Clock:
    ordered = sorted(times)
    return Clock(nearest(ordered, 0.5), nearest(ordered, 0.99))


def _clocks(route: str, jobs: Sequence[Job]) -> RouteClocks:
    counts: dict[str, int] = {}
    for job in jobs:
        counts[job.clock] = counts.get(job.clock, 0) + 1
    return RouteClocks(
        route=route,
        jobs=len(jobs),
        clocks=sorted(counts, key=lambda clock: (-counts[clock], clock)),
        arrival=_clock(job.latency_ns for job in jobs),
        spawn=_clock(spawn) if (spawn := [job.end_ns - job.spawn_ns for job in jobs if job.spawn_ns]) else None,
        handler=_clock(job.end_ns - (job.handler_ns or job.arrival_ns) for job in jobs),
    )


@dataclass(frozen=True)
class Branch:
    """One upstream's calls in jobs that had a deadline, by one route."""

    route: str
    upstream: str
    operation: str
    calls: int
    #: Calls whose data reached the code after the job's deadline.
    missed: int
    #: Of those, replies that were there before it: the process was late, not the upstream.
    was_ready: int
    #: Of those, replies whose moment is unknown.
    unknown: int

    @property
    def missed_frac(self) -> float:
        """Of the calls; 0 to 1."""
        return self.missed / self.calls


def branches_of(calls: Iterable[Call], jobs: Mapping[tuple[int, int], Job]) -> list[Branch]:
    """Branches that missed a deadline, most misses first.

    Args:
        jobs: by process and number.
    """
    found: dict[tuple[str, str, str], list[int]] = {}
    for call in calls:
        job = jobs.get((call.process, call.job))
        if job is None or not job.deadline_ns:
            continue
        counts = found.setdefault((call.route, call.upstream, call.operation), [0, 0, 0, 0])
        counts[0] += 1
        if call.to_ns > job.deadline_ns:
            counts[1] += 1
            counts[2] += 0 < call.ready_ns <= job.deadline_ns
            counts[3] += call.ready_ns == 0
    rows = [Branch(*key, *counts) for key, counts in found.items() if counts[1]]
    return sorted(rows, key=lambda each: (-each.missed, each.route, each.upstream))
