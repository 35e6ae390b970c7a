"""Runs from recordings: a job's latency is from its arrival at the process, not from the client's scheduled send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from greenlane_tools.lab.compare.subject import Run
from greenlane_tools.lab.samples import Samples
from greenlane_tools.reader.rows import Job

__all__ = ["run_of_jobs"]


class Recording(Protocol):
    """What is needed of a recording."""

    @property
    def jobs(self) -> Sequence[Job]:
        """Jobs that ended."""


def run_of_jobs(recording: Recording) -> Run:
    """All jobs as one run; endpoints are routes."""
    jobs = sorted(recording.jobs, key=lambda job: job.arrival_ns)
    start = jobs[0].arrival_ns if jobs else 0
    routes = tuple(dict.fromkeys(job.route for job in jobs))
    number = {route: place for place, route in enumerate(routes)}
    arrival = np.array([job.arrival_ns - start for job in jobs], np.int64)
    done = np.array([job.end_ns - start for job in jobs], np.int64)
    samples = Samples(
        routes,
        stream=np.array([number[job.route] for job in jobs], np.uint16),
        scheduled_ns=arrival,
        # Nobody was late to send: recordings do not see the client.
        sent_ns=arrival,
        first_byte_ns=done,
        done_ns=done,
        status=np.array([_status(job.status) for job in jobs], np.int16),
        worker=np.array([job.process for job in jobs], np.int32),
        work_ms=np.zeros(len(jobs)),
    )
    return Run({}, samples)


def _status(status: int) -> int:
    """HTTP's, with redirections as answers; jobs that are no requests have 0 for well and 1 for failed."""
    if status == 0 or 200 <= status < 400:
        return 200
    return status if status >= 400 else 500
