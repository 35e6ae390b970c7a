"""Celery's workers under `greenlane record`: tasks are jobs, from their publication or their ETA on."""

from __future__ import annotations

import signal
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.record.command import GREENLANE, environment, greenlane, recorded

from tests.fixtures import StartProcess
from tests.servers import Redis

pytestmark = [pytest.mark.system, pytest.mark.slow]

TASKS = """
import os, time
from celery import Celery
app = Celery("tasks", broker=os.environ["BROKER"])

@app.task
def add(number):
    time.sleep(0.02)
    return number

@app.task
def fail():
    raise ValueError

@app.task(bind=True, max_retries=1)
def again(self):
    if self.request.retries:
        return
    raise self.retry(countdown=0.3)
"""
PUBLISH = """
import tasks
for number in range(6):
    tasks.add.delay(number)
tasks.fail.delay()
tasks.again.delay()
tasks.add.apply_async((7,), countdown=0.5, expires=60)
"""
EXECUTIONS = {"tasks.add": 7, "tasks.fail": 1, "tasks.again": 2}


@pytest.mark.parametrize("pool", ["prefork", "threads", "gevent", "solo"])
@pytest.mark.gate
def test_tasks_are_jobs_from_their_publication_on(tmp_path: Path, start_process: StartProcess, pool: str) -> None:
    with Redis() as redis:
        (tmp_path / "tasks.py").write_text(TASKS)
        (tmp_path / "publish.py").write_text(PUBLISH)
        env = environment(BROKER=redis.url)
        published = greenlane("record", "-o", "p.glr", "--", sys.executable, "publish.py", cwd=tmp_path, env=env)
        assert published.code == 0, published.err
        celery = (sys.executable, "-m", "celery", "-A", "tasks", "worker", "-P", pool, "-c", "2", "-l", "INFO")
        worker = start_process([*GREENLANE, "record", "-o", "r.glr", "--", *celery], cwd=tmp_path, env=env)
        worker.wait_output(r"tasks\.again\S+ succeeded", timeout_s=40)
        worker.wait_output(r"(?s)(tasks\.add\S+ succeeded.*){7}", timeout_s=40)
        worker.signal(signal.SIGTERM)
        assert worker.wait_exit(timeout_s=40) == 0
    recording = recorded(tmp_path)
    assert Counter(job.route for job in recording.jobs) == EXECUTIONS
    assert {(job.host, job.clock) for job in recording.jobs} == {("celery", "enqueue")}
    assert {job.status for job in recording.jobs if job.route == "tasks.add"} == {0}
    assert {job.status for job in recording.jobs if job.route == "tasks.fail"} == {1}
    in_queue_ns = sorted(job.handler_ns - job.arrival_ns for job in recording.jobs if job.route == "tasks.add")
    assert in_queue_ns[-1] >= 100_000_000  # they were there before the worker
    (with_eta,) = (job for job in recording.jobs if job.deadline_ns)
    first_ns = min(job.arrival_ns for job in recording.jobs)
    assert with_eta.arrival_ns - first_ns >= 500_000_000  # it could not have started before
    assert all(job.latency_ns >= 20_000_000 for job in recording.jobs if job.route == "tasks.add")
