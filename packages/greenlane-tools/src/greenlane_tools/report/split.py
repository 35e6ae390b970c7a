"""What a latency consists of (CPU, I/O, wait by kind, residual), and per route: mean and percentiles with their parts.

Percentiles are by nearest rank; what one consists of is the mean of its neighbours. The order of the kinds is that of
every bar and table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from greenlane_tools.reader.rows import Job

__all__ = [
    "KINDS",
    "LEVELS",
    "WAITS",
    "LatencyLevel",
    "RouteSplit",
    "lane_of",
    "levels",
    "mean_parts",
    "named",
    "nearest",
    "neighbours",
    "parts",
    "split_routes",
    "wait_ns",
]

WAITS: Final = ("loop", "gil", "permit", "stopped", "accept", "parked", "pool", "queue", "lock", "os", "blocked")
KINDS: Final = ("cpu", "io", *WAITS, "residual")
_NAMES: Final = {
    "cpu": "CPU",
    "io": "I/O",
    "loop": "wait: loop",
    "gil": "wait: GIL",
    "permit": "wait: permit",
    "stopped": "wait: stopped",
    "accept": "wait: accept",
    "parked": "wait: parked",
    "pool": "wait: pool",
    "queue": "wait: queue of a thread",
    "lock": "wait: lock",
    "os": "wait: OS",
    "blocked": "wait: blocked in a call",
    "residual": "residual",
}
T = TypeVar("T")
#: Of hosts whose jobs run on an event loop, a part of the name; and how threads beside one are called.
_LOOP_HOSTS: Final = ("gevent", "asgi", "asyncio", "aiohttp", "uvicorn", "tornado", "sanic")
_THREADS: Final = ("ThreadPoolExecutor", "Thread-", "AnyIO worker", "asyncio_")
#: Name and share of the percentiles that reports give.
LEVELS: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
#: A percentile further out than its samples carry is not given.
_SAMPLES_FOR_P999: Final = 10_000
#: At most this many jobs to each side of a percentile are averaged: enough to be stable, too few to blur it.
_REACH: Final = 50


def named(kind: str) -> str:
    """How a kind reads in legends and tables."""
    return _NAMES.get(kind, f"wait: {kind}")


def wait_ns(job: Job) -> int:
    """All of a job's wait."""
    return sum(job.wait_ns.values())


def parts(job: Job) -> dict[str, int]:
    """ns by kind; their sum is the job's latency, exactly."""
    found = dict.fromkeys(KINDS, 0)
    found["cpu"] = job.cpu_ns
    found["io"] = sum(job.io_ns.values())
    for kind, ns in job.wait_ns.items():
        found[kind] = found.get(kind, 0) + ns
    found["residual"] = job.residual_ns
    return found


def mean_parts(jobs: Sequence[Job]) -> dict[str, float]:
    """Mean ns by kind over jobs; zeros without any."""
    total: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    for job in jobs:
        total["cpu"] += job.cpu_ns
        for ns in job.io_ns.values():
            total["io"] += ns
        for kind, ns in job.wait_ns.items():
            total[kind] = total.get(kind, 0.0) + ns
        total["residual"] += job.residual_ns
    return {kind: ns / max(1, len(jobs)) for kind, ns in total.items()}


def sum_by_kind(found: Iterable[dict[str, int]]) -> dict[str, int]:
    """Sums by key, the largest first."""
    total: dict[str, int] = {}
    for each in found:
        for kind, ns in each.items():
            total[kind] = total.get(kind, 0) + ns
    return dict(sorted(total.items(), key=lambda item: -item[1]))


def levels(samples: int) -> dict[str, float]:
    """The percentiles that this many samples can carry."""
    return {name: at for name, at in LEVELS.items() if name != "p999" or samples >= _SAMPLES_FOR_P999}


def nearest(ordered: Sequence[T], at: float) -> T:
    """The smallest value that at least the share `at` of an ascending, non-empty sequence does not exceed."""
    return ordered[max(0, math.ceil(at * len(ordered)) - 1)]


def neighbours(ordered: Sequence[T], at: float) -> Sequence[T]:
    """Values around a percentile: half way to the end on the far side, as many on the near one, at most 50 each."""
    rank = max(0, math.ceil(at * len(ordered)) - 1)
    reach = min(_REACH, int((1 - at) * len(ordered) / 2), int(0.05 * len(ordered)))
    return ordered[max(0, rank - reach) : rank + reach + 1]


@dataclass(frozen=True)
class LatencyLevel:
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
    levels: Mapping[str, LatencyLevel]
    #: Sums over the jobs: everything, CPU, wait, and I/O by what was blocked on.
    latency_ns: int
    cpu_ns: int
    wait_ns: int
    io_ns: Mapping[str, int]
    #: Of the I/O this much may have been wait.
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
    found = {"mean": LatencyLevel(latency_ns / len(jobs), mean_parts(jobs))}
    for name, at in levels(len(jobs)).items():
        found[name] = LatencyLevel(nearest(jobs, at).latency_ns, mean_parts(neighbours(jobs, at)))
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


def lane_of(job: Job, unit: str) -> str:
    """Greenlets and tasks run on their loop, a thread is its own lane.

    Parts name their unit and not its kind: the host of the job tells it, and what pools call their threads.
    """
    on_loop = any(name in job.host for name in _LOOP_HOSTS) and not unit.startswith(_THREADS)
    return "loop" if on_loop else unit or "thread"
