"""A call of C that keeps the GIL is told as one call with its line; a wait that chose its end is no contention."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.record.command import greenlane, record, recorded

pytestmark = [pytest.mark.slow]

# Adding up is one call of C. The sampler sees most of such calls, and not each: the one that made it may go on first.
KEEPS_THE_GIL = """
import threading, time
from greenlane import record

done = threading.Event()


def add_up():
    return sum(range(15_000_000))  # here


def adds():
    for _ in range(16):
        with record.job("adds"):
            add_up()
    done.set()


def page():
    while not done.is_set():
        with record.job("page"):
            time.sleep(0.001)


threads = [threading.Thread(target=each) for each in (adds, page, page)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""

TIMES_OUT = """
import queue, threading

changes, event, condition = queue.Queue(), threading.Event(), threading.Condition()
simple, places = queue.SimpleQueue(), threading.Semaphore(0)


def nothing_comes(wait):
    try:
        wait()
    except queue.Empty:
        pass


def get_in_condition():
    with condition:
        condition.wait(0.02)


for name, wait in {
    "event": lambda: event.wait(0.02),
    "queue": lambda: changes.get(timeout=0.02),
    "simple": lambda: simple.get(timeout=0.02),
    "condition": get_in_condition,
    "semaphore": lambda: places.acquire(timeout=0.02),
}.items():
    with greenlane.record.job(name):
        nothing_comes(wait)
"""


def test_a_call_of_c_that_keeps_the_gil_has_the_line_that_made_it(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(KEEPS_THE_GIL, encoding="utf-8")
    ended = greenlane("record", "-o", "r.glr", "--", sys.executable, "app.py", cwd=tmp_path)
    assert ended.code == 0, ended.err
    of_call = [row for row in recorded(tmp_path).stacks if row.calls]
    assert of_call, "no call was seen"
    for row in of_call:
        assert row.culprit == "adds"
        function, _, place = row.stack.split(";")[-1].partition(" (")
        line = int(place.rpartition(":")[2].rstrip(")"))
        assert function == "add_up"
        assert "# here" in KEEPS_THE_GIL.splitlines()[line - 1]
        assert row.longest_call_ns <= row.ns


def test_a_wait_that_ends_by_its_own_time_out_is_sleep(tmp_path: Path) -> None:
    ended = record(TIMES_OUT, cwd=tmp_path)
    assert ended.code == 0, ended.err
    recording = recorded(tmp_path)
    jobs = {job.route: job for job in recording.jobs}
    slept = {route for route, job in jobs.items() if job.io_ns.get("sleep", 0) > job.wait_ns.get("lock", 0)}
    assert slept == {"event", "queue", "simple", "condition"}
    # Others hold a semaphore's places.
    (semaphore,) = recording.resources
    assert (semaphore.kind, semaphore.waits, semaphore.gave_up) == ("semaphore", 1, 1)
    assert jobs["semaphore"].wait_ns["pool"] > 0
