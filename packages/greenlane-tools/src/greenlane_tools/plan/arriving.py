"""How the recorded requests came: for how long, and how unevenly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from greenlane_tools.reader.rows import Job

__all__ = ["off_s", "seen_s", "spread"]

_S: Final = 1_000_000_000
#: Fewer seconds say nothing about bursts.
_LEAST_BINS: Final = 10


def seen_s(jobs: Sequence[Job], off: float) -> float:
    """For how long requests were watched: from the first arrival to the last and a mean gap, less what was off.

    A single request says nothing of its rate: then it is its latency, at least a second.
    """
    first, last = min(job.arrival_ns for job in jobs), max(job.arrival_ns for job in jobs)
    if len(jobs) < 2 or first == last:
        return max(1.0, max(job.latency_ns for job in jobs) / _S)
    whole = (last - first) / _S
    return max(1e-3, (whole - min(off, 0.99 * whole)) * len(jobs) / (len(jobs) - 1))


def off_s(marks: Iterable[tuple[int, int, str]], jobs: Sequence[Job]) -> float:
    """For how long of that time recording was switched off, mean of the processes that served."""
    first, last = min(job.arrival_ns for job in jobs), max(job.arrival_ns for job in jobs)
    serving = {job.process for job in jobs}
    began: dict[int, int] = {}
    total = 0
    for process, at_ns, what in sorted(marks, key=lambda mark: mark[1]):
        if process not in serving:
            continue
        if what == "off":
            began[process] = max(first, at_ns)
        elif what == "on" and process in began:
            total += max(0, min(last, at_ns) - began.pop(process))
    return total / len(serving) / _S


def spread(arrivals_ns: Sequence[int]) -> float | None:
    """Index of dispersion of the counts in whole seconds: their variance by their mean. None = too short to say."""
    first = min(arrivals_ns)
    bins = (max(arrivals_ns) - first) // _S
    if bins < _LEAST_BINS:
        return None
    counts = [0] * bins
    for at_ns in arrivals_ns:
        second = (at_ns - first) // _S
        if second < bins:
            counts[second] += 1
    mean = sum(counts) / bins
    return round(sum((each - mean) ** 2 for each in counts) / (bins - 1) / mean, 4) if mean else None
