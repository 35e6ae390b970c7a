"""CPU that ran without the GIL.

Of a loop its recording tells: the recorder looks now and then who has the GIL, and a thread that computes and has it
not does so without. On the loop itself that makes no difference; on threads others would run meanwhile.

A recording of threads does not say when a C call released the GIL. But more CPU in one process than one core gives
cannot all have had it: in a tenth of a second one process has the GIL for at most a tenth of a second: what its
requests computed beyond that was free. Whose that was is estimated by expectation maximisation over all moments in
which two requests or more had the process busy: routes that are there when it happens get it, routes that fill such a
moment without it lose it. What was free while nobody else computed cannot be seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from greenlane_tools.reader.rows import Job, Look
from greenlane_tools.report.subject import RecordedRows

__all__ = ["free_fracs", "unlocked_fracs"]

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
#: Fewer looks at a route say nothing of it.
_LEAST_LOOKS: Final = 20
#: Of the CPU of a process' requests: beyond it threads wait for each other there.
_WAITED_FRAC: Final = 0.05
#: Standard errors above `_LEAST_FRAC` that a share must be: short system calls release the GIL as well.
_ERRORS: Final = 2.0


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


def free_fracs(recording: RecordedRows, jobs: Sequence[Job]) -> Mapping[str, float]:
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


def unlocked_fracs(looks: Iterable[Look], jobs: Mapping[str, Sequence[Job]]) -> Mapping[str, float]:
    """The share of its CPU that ran without the GIL, by route, as looks at a loop's thread tell it; 0 = hardly any.

    Args:
        jobs: by route.

    Routes that were looked at too seldom are not in it, nor are processes whose requests waited for the GIL: who waits
    wakes the recorder, whose looks then meet those moments more often in which nobody does.
    """
    contended = _contended(jobs.values())
    by_job = {(each.process, each.job): each for each in looks if each.process not in contended}
    found: dict[str, float] = {}
    for route, of in jobs.items():
        seen = [each for job in of if (each := by_job.get((job.process, job.job)))]
        count, ns = sum(each.looks for each in seen), sum(each.ns for each in seen)
        if count >= _LEAST_LOOKS and ns:
            frac = sum(each.free_ns for each in seen) / ns
            found[route] = round(frac, 3) if _surely(frac, count) > _LEAST_FRAC else 0.0
    return found


def _contended(jobs: Iterable[Sequence[Job]]) -> set[int]:
    """Processes whose requests waited for the GIL: threads beside the loop run some of them."""
    waited: dict[int, int] = {}
    cpu: dict[int, int] = {}
    for job in (each for of in jobs for each in of):
        waited[job.process] = waited.get(job.process, 0) + job.wait_ns.get("gil", 0)
        cpu[job.process] = cpu.get(job.process, 0) + job.cpu_ns
    return {process for process, ns in waited.items() if ns > _WAITED_FRAC * cpu[process]}


def _surely(frac: float, count: int) -> float:
    """The lower end of the share's interval (Wilson)."""
    square = _ERRORS**2 / count
    return (frac + square / 2 - math.sqrt(square * (frac * (1 - frac) + square / 4))) / (1 + square)


def _bins(recording: RecordedRows, jobs: Iterable[Job]) -> Iterable[Bin]:
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
