"""Per route: how long jobs took, at the mean and at each percentile, and what that time consists of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from greenlane_tools.reader.rows import Job
from greenlane_tools.report.parts import mean_parts, sum_by_kind, wait_ns
from greenlane_tools.report.percentiles import levels, nearest, neighbours

__all__ = ["Level", "RouteSplit", "split_routes"]


@dataclass(frozen=True)
class Level:
    """A latency, and the mean parts of the jobs around it (their sum is near it, not equal)."""

    latency_ns: float
    parts: Mapping[str, float]


@dataclass(frozen=True)
class RouteSplit:
    """One route."""

    route: str
    #: Ascending by latency.
    jobs: Sequence[Job]
    #: "mean", then each percentile that the samples carry.
    levels: Mapping[str, Level]
    #: Sums over the jobs: everything, CPU, wait, and I/O by what was blocked on.
    latency_ns: int
    cpu_ns: int
    wait_ns: int
    io_ns: Mapping[str, int]
    #: Of the I/O so much may have been wait.
    uncertain_ns: int
    #: Jobs that ended after their deadline, of those that had one.
    late: int
    with_deadline: int
    #: HTTP 5xx, or a task that failed.
    failed: int


def split_routes(jobs: Iterable[Job]) -> list[RouteSplit]:
    """The routes, those with the most time first."""
    grouped: dict[str, list[Job]] = {}
    for job in jobs:
        grouped.setdefault(job.route, []).append(job)
    found = [_split(route, sorted(of, key=lambda job: job.latency_ns)) for route, of in grouped.items()]
    return sorted(found, key=lambda each: (-each.latency_ns, each.route))


def _split(route: str, jobs: Sequence[Job]) -> RouteSplit:
    latency_ns = sum(job.latency_ns for job in jobs)
    found = {"mean": Level(latency_ns / len(jobs), mean_parts(jobs))}
    for name, at in levels(len(jobs)).items():
        found[name] = Level(nearest(jobs, at).latency_ns, mean_parts(neighbours(jobs, at)))
    return RouteSplit(
        route=route,
        jobs=jobs,
        levels=found,
        latency_ns=latency_ns,
        cpu_ns=sum(job.cpu_ns for job in jobs),
        wait_ns=sum(wait_ns(job) for job in jobs),
        io_ns=sum_by_kind(job.io_ns for job in jobs),
        uncertain_ns=sum(job.uncertain_ns for job in jobs),
        late=sum(0 < job.deadline_ns < job.end_ns for job in jobs),
        with_deadline=sum(job.deadline_ns > 0 for job in jobs),
        failed=sum(job.status >= 500 or job.status == 1 for job in jobs),
    )
