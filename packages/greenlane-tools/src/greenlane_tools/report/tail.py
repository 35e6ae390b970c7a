"""What slow jobs have more of than middling ones, by kind, and who made them wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from greenlane_tools.reader.rows import Job
from greenlane_tools.report.split import RouteSplit, levels, mean_parts, nearest, neighbours, wait_ns

__all__ = ["Excess", "culprits_of", "excesses"]


@dataclass(frozen=True)
class Excess:
    """One percentile of one route against its p50."""

    route: str
    #: "p95", "p99", "p999".
    at: str
    latency_ns: int
    #: The percentile less p50.
    excess_ns: int
    #: What jobs around the percentile have more of than those around p50, mean ns by kind. May be negative.
    parts: Mapping[str, float]
    #: Of that excess, the share that is wait; 0 to 1.
    wait_frac: float
    #: The kind with the largest part.
    kind: str
    #: (culprit, share of the wait of the jobs around the percentile), most first.
    culprits: Sequence[tuple[str, float]]


def excesses(split: RouteSplit) -> list[Excess]:
    """One for each percentile above p50 that the route's samples carry."""
    middle = mean_parts(neighbours(split.jobs, 0.5))
    p50 = nearest(split.jobs, 0.5).latency_ns
    return [
        _excess(split.route, name, nearest(split.jobs, at).latency_ns, p50, neighbours(split.jobs, at), middle)
        for name, at in levels(len(split.jobs)).items()
        if name != "p50"
    ]


def culprits_of(jobs: Sequence[Job]) -> list[tuple[str, float]]:
    """(culprit, share of these jobs' wait), most first."""
    whole = sum(wait_ns(job) for job in jobs)
    total: dict[str, int] = {}
    for job in jobs:
        for culprit, ns in job.culprits:
            total[culprit] = total.get(culprit, 0) + ns
    found = sorted(total.items(), key=lambda item: (-item[1], item[0]))
    return [(culprit, min(1.0, ns / whole)) for culprit, ns in found if ns > 0] if whole else []


def _excess(
    route: str, at: str, latency_ns: int, p50_ns: int, slow: Sequence[Job], middle: Mapping[str, float]
) -> Excess:
    around = mean_parts(slow)
    more = {kind: ns - middle.get(kind, 0.0) for kind, ns in around.items()}
    gained = sum(ns for ns in more.values() if ns > 0)
    waited = sum(ns for kind, ns in more.items() if ns > 0 and kind not in ("cpu", "io", "residual"))
    return Excess(
        route=route,
        at=at,
        latency_ns=latency_ns,
        excess_ns=latency_ns - p50_ns,
        parts=more,
        wait_frac=waited / gained if gained > 0 else 0.0,
        kind=max(more, key=lambda kind: more[kind]),
        culprits=culprits_of(slow),
    )
