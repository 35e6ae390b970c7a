"""100,000 real jobs: each one's parts make its latency, little is left over, none is missing and no event lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.truths.compare import parts, run
from greenlane.record import open_recording

THREADS, EACH = 4, 25_000


@pytest.mark.slow
def test_the_parts_of_each_of_a_hundred_thousand_jobs_are_its_latency(tmp_path: Path) -> None:
    told = run(tmp_path, "many", str(THREADS), str(EACH))
    assert told["lost"] == 0
    jobs = open_recording(tmp_path).jobs
    assert len(jobs) == told["jobs"] == THREADS * EACH
    assert all(sum(parts(job).values()) + job.residual_ns == job.latency_ns for job in jobs)
    left = sorted(abs(job.residual_ns) / max(1, job.latency_ns) for job in jobs)
    assert left[int(0.99 * len(left))] <= 0.01
