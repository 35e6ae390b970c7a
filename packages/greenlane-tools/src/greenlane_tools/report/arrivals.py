"""How the load came: open, or from so many clients that wait for their answers. Little's law on both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from greenlane_tools.reader.rows import Job

__all__ = ["Load", "load_of"]

#: Ends of a recording, where a load rises and falls, as shares of its time.
_EDGE_FRAC: Final = 0.1
#: A mean this near to the most says that somebody kept the number full. Open arrivals of N on average reach far above.
_CLOSED_FRAC: Final = 0.9
_LEAST_CLIENTS: Final = 4
_LEAST_JOBS: Final = 100


@dataclass(frozen=True)
class Load:
    """Of the middle of the recording."""

    #: X, R and N of Little's law, N = X·R: jobs that ended a second, their mean latency, jobs in progress.
    per_s: float
    latency_ns: float
    in_progress: float
    most_in_progress: int
    #: The number in progress was kept full: a benchmark of waiting clients, not arrivals of a public.
    closed: bool


def load_of(jobs: Iterable[Job]) -> Load:
    """Zeros without jobs."""
    ended = list(jobs)
    if not ended:
        return Load(0, 0, 0, 0, False)
    first, last = min(job.arrival_ns for job in ended), max(job.end_ns for job in ended)
    edge = int((last - first) * _EDGE_FRAC)
    begin, end = first + edge, max(last - edge, first + edge + 1)
    steps = sorted([(job.arrival_ns, 1) for job in ended] + [(job.end_ns, -1) for job in ended])
    now = most = area = 0
    at_ns = begin
    for moment, step in steps:
        if moment > begin:
            until = min(moment, end)
            if until > at_ns:
                area += now * (until - at_ns)
                most = max(most, now)
                at_ns = until
        now += step
    inside = [job for job in ended if begin <= job.end_ns <= end]
    in_progress = area / (end - begin)
    closed = len(ended) >= _LEAST_JOBS and most >= _LEAST_CLIENTS and in_progress >= _CLOSED_FRAC * most
    latency_ns = sum(job.latency_ns for job in inside) / max(1, len(inside))
    return Load(len(inside) / ((end - begin) / 1e9), latency_ns, in_progress, most, closed)
