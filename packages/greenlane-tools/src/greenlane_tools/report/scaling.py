"""Signals that an autoscaler can use: CPU alone sleeps through a queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from greenlane_tools.reader.rows import Job, Sample
from greenlane_tools.report.balance import Balance
from greenlane_tools.report.percentiles import nearest

__all__ = ["Scaling", "scaling_of"]


@dataclass(frozen=True)
class Scaling:
    """Over the whole recording; None = not sampled, or no jobs."""

    #: Of the largest lateness in each second of each process.
    lag_p99_ns: int | None
    #: Of what jobs waited before anything ran for them: accept queue and pools.
    queue_wait_p99_ns: int | None
    #: Busy share of the hottest worker, of its busiest second, and the mean of all (what a CPU dashboard shows).
    hottest_busy_frac: float | None
    hottest_second_frac: float | None
    mean_busy_frac: float | None
    #: Largest number of connections that nobody had accepted.
    backlog: int


def scaling_of(jobs: Iterable[Job], samples: Sequence[Sample], balance: Balance) -> Scaling:
    """The signals."""
    lags = sorted(sample.lag_ns for sample in samples)
    queued = sorted(job.wait_ns.get("accept", 0) + job.wait_ns.get("pool", 0) for job in jobs)
    hottest = balance.hottest
    return Scaling(
        lag_p99_ns=nearest(lags, 0.99) if lags else None,
        queue_wait_p99_ns=nearest(queued, 0.99) if queued else None,
        hottest_busy_frac=hottest.busy_frac if hottest else None,
        hottest_second_frac=hottest.busiest_second_frac if hottest else None,
        mean_busy_frac=balance.mean_busy_frac,
        backlog=max((sample.backlog for sample in samples), default=0),
    )
