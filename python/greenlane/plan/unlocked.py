"""CPU that ran without the GIL: more of it in one process than one core gives cannot all have had the GIL.

A recording of threads does not say when a C call released the GIL. But in a tenth of a second one process has the GIL
for at most a tenth of a second: what its requests computed beyond that was free. Whose that was is estimated by
expectation maximisation over all moments in which two requests or more had the process busy: routes that are there when
it happens get it, routes that fill such a moment without it lose it. What was free while nobody else computed cannot be
seen.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from greenlane.record.rows import Job
from greenlane.report.subject import Recording

__all__ = ["free_fracs"]

_BIN_NS: Final = 100_000_000
#: Clocks and edges of slices account for so much.
_ROOM_FRAC: Final = 0.1
#: Requests whose lives are read: those with most CPU.
_MOST_JOBS: Final = 5_000
_ROUNDS: Final = 20
#: Fewer moments with too much are an accident.
_LEAST_BINS: Final = 5
#: A smaller share is not told from noise.
_LEAST_FRAC: Final = 0.05


@dataclass
class Bin:
    """A tenth of a second of one process."""

    #: CPU by route, ns.
    cpu_ns: dict[str, float] = field(default_factory=dict)
    jobs: set[int] = field(default_factory=set)

    @property
    def over_ns(self) -> float:
        """So much too much."""
        return sum(self.cpu_ns.values()) - _BIN_NS

    @property
    def contested(self) -> bool:
        """Two or more had it busy."""
        return len(self.jobs) > 1 and self.over_ns > -_ROOM_FRAC * _BIN_NS


def free_fracs(recording: Recording, jobs: Sequence[Job]) -> Mapping[str, float]:
    """The share of its CPU that ran without the GIL, by route; routes without any are not in it."""
    if not any(sample.threads > 1 for sample in recording.samples):
        return {}
    bins = [each for each in _bins(recording, jobs) if each.contested]
    if sum(each.over_ns > _ROOM_FRAC * _BIN_NS for each in bins) < _LEAST_BINS:
        return {}
    found = dict.fromkeys((route for each in bins for route in each.cpu_ns), 0.5)
    for _ in range(_ROUNDS):
        found = _round(bins, found)
    return {route: round(frac, 3) for route, frac in found.items() if frac >= _LEAST_FRAC}


def _bins(recording: Recording, jobs: Iterable[Job]) -> Iterable[Bin]:
    heavy = sorted(jobs, key=lambda job: -job.cpu_ns)[:_MOST_JOBS]
    bins: dict[tuple[int, int], Bin] = {}
    for job in heavy:
        for segment in recording.segments(job.process, job.job):
            if segment.state != "cpu":
                continue
            at_ns = segment.from_ns
            while at_ns < segment.to_ns:
                number = at_ns // _BIN_NS
                until_ns = min(segment.to_ns, (number + 1) * _BIN_NS)
                of = bins.setdefault((job.process, number), Bin())
                of.cpu_ns[job.route] = of.cpu_ns.get(job.route, 0.0) + until_ns - at_ns
                of.jobs.add(job.job)
                at_ns = until_ns
    return bins.values()


def _round(bins: Sequence[Bin], before: Mapping[str, float]) -> dict[str, float]:
    """What was too much in each moment goes to the routes by what they are thought to have computed freely."""
    free: dict[str, float] = dict.fromkeys(before, 0.0)
    total: dict[str, float] = dict.fromkeys(before, 0.0)
    for each in bins:
        guessed = {route: before[route] * ns for route, ns in each.cpu_ns.items()}
        by = max(0.0, each.over_ns) / max(1.0, sum(guessed.values()))
        for route, ns in each.cpu_ns.items():
            free[route] += min(ns, guessed[route] * by)
            total[route] += ns
    return {route: free[route] / total[route] if total[route] else 0.0 for route in before}
