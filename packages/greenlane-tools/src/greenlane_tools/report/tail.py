"""What slow jobs have more of than middling ones, by kind, and who made them wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from greenlane_tools.page.quantities import duration, share
from greenlane_tools.reader.rows import Job
from greenlane_tools.report.culprits import StackFrame, called
from greenlane_tools.report.split import RouteSplit, levels, mean_parts, nearest, neighbours, told, wait_ns

__all__ = ["Excess", "culprits_of", "excesses", "sentence"]


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


def sentence(each: Excess, places: Mapping[str, StackFrame]) -> str:
    """The excess in words: "82 % of what p99 exceeds p50 by is waiting for the loop; 71 % of that was GET /report"."""
    at = each.at.replace("999", "99.9")
    gained = sum(ns for ns in each.parts.values() if ns > 0) or 1.0
    frac, what = each.parts[each.kind] / gained, told(each.kind)
    said = f"{each.route}: {share(frac)} of what {at} exceeds p50 by ({duration(each.excess_ns)}) is {what}"
    if each.kind in ("cpu", "io", "residual") or not each.culprits:
        return f"{said}."
    culprit, by = each.culprits[0]
    place = f", {places[culprit].place}" if culprit in places else ""
    return f"{said}; {share(by)} of its waiting was for {called(culprit)}{place}."


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
