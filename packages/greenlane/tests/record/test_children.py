"""What a job does on other threads belongs to it; what a pool's thread does for nobody does not."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.record.command import record, recorded

pytestmark = [pytest.mark.slow]

CHILDREN = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
from greenlane import record

pool = ThreadPoolExecutor(1)

def ask():
    time.sleep(0.05)

def burn():
    end_s = time.thread_time() + 0.02
    while time.thread_time() < end_s:
        pass

pool.submit(ask).result()  # its thread is there

with record.job("pool"):
    pool.submit(ask).result()
with record.job("map"):
    list(pool.map(lambda _: burn(), range(2)))
with record.job("thread"):
    thread = threading.Thread(target=burn)
    thread.start()
    thread.join()
time.sleep(0.05)
pool.submit(burn).result()
"""


def test_pools_and_threads_work_for_the_job_that_asked_them(tmp_path: Path) -> None:
    ended = record(CHILDREN, cwd=tmp_path)
    assert ended.code == 0, ended.err
    jobs = {job.route: job for job in recorded(tmp_path).jobs}
    asked = jobs["pool"]
    assert asked.io_ns.get("sleep", 0) >= 45_000_000
    assert jobs["map"].cpu_ns >= 38_000_000
    assert jobs["thread"].cpu_ns >= 19_000_000
    for job in jobs.values():
        parts = job.cpu_ns + sum(job.io_ns.values()) + sum(job.wait_ns.values()) + job.residual_ns
        assert parts == job.latency_ns
