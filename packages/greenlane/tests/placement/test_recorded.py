"""What the recording says of placed calls: their CPU is their caller's, and so is the wait for the lane, by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.record.command import environment, record, recorded

from greenlane_tools.reader.rows import Job
from tests.where import IMPORT_PATH

pytestmark = pytest.mark.slow

MS = 1_000_000
LOOPS = ["asyncio", "uvloop", "gevent", "threads"]
WORK = """
import time
import greenlane
from greenlane import record

@greenlane.heavy
def burn(ms):
    end_s = time.thread_time() + ms / 1000
    while time.thread_time() < end_s:
        pass

"""
ON_LOOP = (
    WORK
    + """
import asyncio

async def job(name, ms):
    with record.job(name):
        await greenlane.run(burn, ms)

async def main():
    await greenlane.run(burn, 1)
    first = asyncio.create_task(job("first", 200))
    await asyncio.sleep(0.005)
    await asyncio.gather(first, job("second", 20))

LOOP
"""
)
ON_HUB = (
    """
import gevent.monkey
gevent.monkey.patch_all()
import gevent
"""
    + WORK
    + """
def job(name, ms):
    with record.job(name):
        greenlane.run(burn, ms)

greenlane.run(burn, 1)
first = gevent.spawn(job, "first", 200)
gevent.sleep(0.005)
gevent.joinall([first, gevent.spawn(job, "second", 20)], raise_error=True)
"""
)
ON_THREADS = (
    WORK
    + """
import threading

def job(name, ms):
    with record.job(name):
        greenlane.run(burn, ms)

greenlane.run(burn, 1)
threads = [threading.Thread(target=job, args=args) for args in (("first", 200), ("second", 20))]
threads[0].start()
time.sleep(0.005)
threads[1].start()
for thread in threads:
    thread.join()
"""
)
ASYNCIO = ON_LOOP.replace("LOOP", "asyncio.run(main())")
UVLOOP = ON_LOOP.replace(
    "LOOP", "import uvloop\nwith asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner: runner.run(main())"
)


@pytest.mark.parametrize("program", [ASYNCIO, UVLOOP, ON_HUB, ON_THREADS], ids=LOOPS)
def test_the_cpu_is_the_callers_and_the_wait_for_the_lane_is_named(program: str, tmp_path: Path) -> None:
    ended = record(program, cwd=tmp_path)
    assert ended.code == 0, ended.err
    jobs = {job.route: job for job in recorded(tmp_path).jobs}
    first, second = jobs["first"], jobs["second"]
    assert 199 * MS <= first.cpu_ns <= 260 * MS
    assert 19 * MS <= second.cpu_ns <= 40 * MS
    assert second.wait_ns.get("pool", 0) >= 10 * MS, second
    for job in (first, second):
        assert _parts(job) == job.latency_ns


def _parts(job: Job) -> int:
    return job.cpu_ns + sum(job.io_ns.values()) + sum(job.wait_ns.values()) + job.residual_ns


IN_A_PROCESS = """
import asyncio, sys
sys.path[:0] = {paths!r}
import greenlane
from greenlane import record
from tests.placement import work

burn = greenlane.placed(placement="process", name="burn")(work.burn)

async def job(name, ms):
    with record.job(name):
        await burn(ms)

async def main():
    await burn(1)
    first = asyncio.create_task(job("first", 200))
    await asyncio.sleep(0.005)
    await asyncio.gather(first, job("second", 20))

asyncio.run(main())
"""


def test_the_wait_for_a_worker_process_is_named_and_so_is_the_call(tmp_path: Path) -> None:
    paths = IMPORT_PATH.split(os.pathsep)
    ended = record(IN_A_PROCESS.format(paths=paths), cwd=tmp_path, env=environment(GREENLANE_PROCESS_WORKERS="1"))
    assert (ended.code, "Error" in ended.err) == (0, False), ended.err
    recording = recorded(tmp_path)
    jobs = {job.route: job for job in recording.jobs}
    assert jobs["second"].wait_ns.get("pool", 0) >= 10 * MS, jobs["second"]
    calls = {(call.upstream, call.operation) for call in recording.calls}
    assert calls == {("worker process", "burn")}
    assert len(recording.processes) == 1
