"""What permits would change: an estimate from the recording, bounded to both sides.

What is taken as known: a light phase waits at most one switch interval for a heavy one (threads, CPU permits), heavy
phases take turns as they do now, and the same jobs arrive at the same moments.

A light job, then, loses what it waited in slices over `heavy_ms`, except one interval a wait. A heavy job keeps its
wait, and is overtaken by light work: at most by the share of the CPU that light routes use, over the whole of its CPU
and wait.

    about   light: an interval for each wait.           heavy: half of the overtaking.
    low     light: no interval either.                  heavy: nothing is overtaken.
    high    light: `_HIGH_INTERVALS` for each wait.     heavy: all of the overtaking.

What it does not model: queues that drain sooner because light jobs end sooner (better than estimated), C calls that
hold the GIL (worse: taken out by the slices that could not be cut), another number of threads, more CPU for switches.
The same holds where heavy phases leave an event loop for the heavy lane's thread (`greenlane.run`): what is on the loop
waits at most an interval for it.

A run in mode `on` is the proof, this is the reason to try it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.reader.rows import Blame, Job
from greenlane_tools.report.split import RouteSplit, levels, nearest, wait_ns

__all__ = ["LANE", "MEASURED", "PERMITS", "Gain", "Prediction", "gains_of", "permits_in_force"]

#: By how much it was off: `python -m tests.oncall.remedies --estimates`, p99 of four services as it came with permits.
MEASURED: Final = "of four services three came at 0.5 to 1.0 times the estimate, one at 13 times (66 ms for 5 ms)"

#: What brings the gain, in words: on threads permits, where the culprits compute on an event loop the lane beside it.
PERMITS: Final = "permits"
LANE: Final = "greenlane.run"
#: What a light phase was measured to wait at p99 beside a heavy one, in intervals: 2.6 ms at 0.5 ms.
_HIGH_INTERVALS: Final = 5
#: Culprits' waits that permits on threads can take away. `accept`: threads accept while others compute.
_REMOVABLE: Final = ("loop", "gil", "accept")


@dataclass(frozen=True)
class Prediction:
    """A percentile as it was and as it would be, ns."""

    now_ns: int
    low_ns: int
    about_ns: int
    high_ns: int


@dataclass(frozen=True)
class Gain:
    """One route."""

    route: str
    #: Its own phases are over `heavy_ms`: it takes turns.
    heavy: bool
    levels: Mapping[str, Prediction]
    #: ns that its jobs waited in removable slices, all together.
    removable_ns: int


def permits_in_force(jobs: Iterable[Job]) -> bool:
    """Whether jobs took turns when they were recorded."""
    return any(job.wait_ns.get("permit") for job in jobs)


def gains_of(
    routes: Sequence[RouteSplit], blame: Iterable[Blame], *, heavy_ns: int, interval_ns: int, uncut: Mapping[str, float]
) -> list[Gain]:
    """One a route, in the order of `routes`.

    Args:
        heavy_ns, interval_ns: the settings `heavy_ms` and `interval_ms`.
        uncut: by culprit, the share of the waits for the GIL that C calls caused: those stay.
    """
    rows = [row for row in blame if row.ns > 0]
    heavy = _heavy_routes(routes, rows, heavy_ns)
    removable = [row for row in rows if row.kind in _REMOVABLE and row.culprit in heavy]
    share = _removable_shares(rows, removable, heavy_ns, uncut)
    waits = _waits_per_ns(removable)
    cpu_ns = sum(split.cpu_ns for split in routes)
    light_frac = sum(split.cpu_ns for split in routes if split.route not in heavy) / cpu_ns if cpu_ns else 0.0
    return [_gain(split, split.route in heavy, share, waits, light_frac, interval_ns) for split in routes]


def _heavy_routes(routes: Iterable[RouteSplit], rows: Iterable[Blame], heavy_ns: int) -> set[str]:
    """Routes that compute for over the limit a job, and mostly in slices over it where others waited for them.

    Neither alone would do: several short phases add up to much CPU, and a slice on a thread contains its own waits.
    """
    caused: dict[str, list[int]] = {}
    for row in rows:
        of = caused.setdefault(row.culprit, [0, 0])
        of[0] += row.ns
        of[1] += sum(ns for place, ns in enumerate(row.by_length_ns) if (1000 << place) >= heavy_ns)
    return {
        split.route
        for split in routes
        if split.cpu_ns > heavy_ns * len(split.jobs)
        and (split.route not in caused or 2 * caused[split.route][1] > caused[split.route][0])
    }


def _removable_shares(
    rows: Iterable[Blame], removable: Iterable[Blame], heavy_ns: int, uncut: Mapping[str, float]
) -> dict[tuple[str, str], float]:
    """By victim and culprit: of the wait, the share in slices that permits would take away."""
    total: dict[tuple[str, str], float] = {}
    gone: dict[tuple[str, str], float] = {}
    for row in rows:
        total[row.victim, row.culprit] = total.get((row.victim, row.culprit), 0) + row.ns
    for row in removable:
        over = sum(ns for place, ns in enumerate(row.by_length_ns) if (1000 << place) >= heavy_ns)
        stays = uncut.get(row.culprit, 0.0) if row.kind == "gil" else 0.0
        key = (row.victim, row.culprit)
        gone[key] = gone.get(key, 0) + min(over, row.ns) * (1 - stays)
    return {key: ns / total[key] for key, ns in gone.items()}


def _waits_per_ns(removable: Iterable[Blame]) -> dict[str, float]:
    """By victim: waits per ns of removable wait."""
    found: dict[str, list[int]] = {}
    for row in removable:
        of = found.setdefault(row.victim, [0, 0])
        of[0] += row.waits
        of[1] += row.ns
    return {victim: waits / ns for victim, (waits, ns) in found.items() if ns}


def _gain(
    split: RouteSplit,
    heavy: bool,
    share: Mapping[tuple[str, str], float],
    waits: Mapping[str, float],
    light_frac: float,
    interval_ns: int,
) -> Gain:
    low: list[float] = []
    about: list[float] = []
    high: list[float] = []
    removable = 0.0
    rate = waits.get(split.route, 0.0)
    for job in split.jobs:
        latency = job.latency_ns
        if heavy:
            overtaken = light_frac * (job.cpu_ns + wait_ns(job))
            low.append(latency)
            about.append(latency + overtaken / 2)
            high.append(latency + overtaken)
            continue
        gone = min(_removable(job, share), float(wait_ns(job)))
        removable += gone
        low.append(latency - gone)
        rest_ns = interval_ns * max(1.0, gone * rate) if gone else 0.0
        about.append(latency - gone + min(gone, rest_ns))
        high.append(latency - gone + min(gone, _HIGH_INTERVALS * rest_ns))
    for each in (low, about, high):
        each.sort()
    return Gain(
        route=split.route,
        heavy=heavy,
        levels={
            name: Prediction(
                now_ns=nearest(split.jobs, at).latency_ns,
                low_ns=round(nearest(low, at)),
                about_ns=round(nearest(about, at)),
                high_ns=round(nearest(high, at)),
            )
            for name, at in levels(len(split.jobs)).items()
        },
        removable_ns=round(removable),
    )


def _removable(job: Job, share: Mapping[tuple[str, str], float]) -> float:
    return sum(ns * share.get((job.route, culprit), 0.0) for culprit, ns in job.culprits)
