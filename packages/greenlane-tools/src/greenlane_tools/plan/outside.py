"""CPU that a process uses outside of its requests: accepting, parsing, answering, collecting garbage.

A plan that left it out would promise a throughput that the process does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from greenlane_tools.reader.rows import Job, Sample
from greenlane_tools.report.subject import Recording

__all__ = ["overhead_ms"]

#: Less than this of a process says nothing.
_LEAST_NS: Final = 2_000_000_000


def overhead_ms(recording: Recording, jobs: Sequence[Job]) -> float | None:
    """By request. None = the recording does not say: no process was sampled for 2 s while it had requests.

    Of each process, between its first and last sample while requests came: its CPU, less that of the requests that ran
    then (by their part of that time), less that of the recording's own threads.
    """
    first, last = min(job.arrival_ns for job in jobs), max(job.end_ns for job in jobs)
    own_ns = {cost.process: (cost.writer_ns + cost.sampler_ns, cost.at_ns) for cost in recording.costs}
    began_ns = {process.number: process.from_ns for process in recording.processes}
    outside_ns, requests = 0.0, 0.0
    for number, samples in _sampled(recording.samples, first, last).items():
        begin, end = samples[0], samples[-1]
        if end.at_ns - begin.at_ns < _LEAST_NS:
            continue
        cpu_ns, ran = _inside([job for job in jobs if job.process == number], begin.at_ns, end.at_ns)
        cost_ns, until_ns = own_ns.get(number, (0, 0))
        lived_ns = until_ns - began_ns.get(number, until_ns)
        recorder_ns = cost_ns * min(1.0, (end.at_ns - begin.at_ns) / lived_ns) if lived_ns > 0 else 0.0
        outside_ns += end.cpu_ns - begin.cpu_ns - cpu_ns - recorder_ns
        requests += ran
    return max(0.0, outside_ns / requests / 1e6) if requests >= 1 else None


def _sampled(samples: Sequence[Sample], first_ns: int, last_ns: int) -> dict[int, list[Sample]]:
    found: dict[int, list[Sample]] = {}
    for sample in sorted(samples, key=lambda each: each.at_ns):
        if first_ns <= sample.at_ns <= last_ns:
            found.setdefault(sample.process, []).append(sample)
    return found


def _inside(jobs: Sequence[Job], begin_ns: int, end_ns: int) -> tuple[float, float]:
    """CPU and number of the requests in a stretch of time; those across its edges count by their part in it."""
    cpu_ns, requests = 0.0, 0.0
    for job in jobs:
        from_ns, to_ns = max(job.handler_ns, begin_ns), min(job.end_ns, end_ns)
        if from_ns > to_ns:
            continue
        frac = (to_ns - from_ns) / (job.end_ns - job.handler_ns) if job.end_ns > job.handler_ns else 1.0
        cpu_ns += job.cpu_ns * frac
        requests += frac
    return cpu_ns, requests
