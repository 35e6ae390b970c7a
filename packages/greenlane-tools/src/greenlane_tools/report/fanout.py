"""Branches of a job against its deadline: which call was not there in time, and whether its reply was."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from greenlane_tools.reader.rows import Call, Job

__all__ = ["Branch", "branches_of"]


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
