"""asyncio and uvloop: CPU, I/O and wait of programs whose split is known, and who is to blame."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from greenlane_tools.reader import Job, Recording, open_recording

PROGRAM = Path(__file__).with_name("asyncio_truth.py")
MS = 1_000_000
#: What libuv's timers round away: they count whole ms.
TICK_NS = {"asyncio": 0, "uvloop": MS}

pytestmark = pytest.mark.slow


class Truth:
    """A recording beside what is true of it."""

    def __init__(self, told: dict[str, Any], recording: Recording) -> None:
        self.recording = recording
        self.jobs = {job.job: job for job in recording.jobs}
        self.told = {int(number): row for number, row in told["jobs"].items()}
        self.more = told

    def pairs(self, route: str) -> list[tuple[Job, int, int, int]]:
        """(job, true latency, true CPU, true I/O) of the jobs of `route`."""
        rows = [(self.jobs[number], *row[1:]) for number, row in self.told.items() if row[0] == route]
        assert rows
        return rows


Run = Callable[[str], Truth]


@pytest.fixture(params=["asyncio", "uvloop"])
def loop(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run(loop: str, tmp_path: Path) -> Run:
    def program(name: str) -> Truth:
        done = subprocess.run(
            [sys.executable, "-W", "error", str(PROGRAM), loop, name, str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout)
        assert told["lost"] == 0
        truth = Truth(told, open_recording(tmp_path))
        assert set(truth.told) == set(truth.jobs), "every job is in the recording"
        for job in truth.jobs.values():
            parts = job.cpu_ns + sum(job.io_ns.values()) + sum(job.wait_ns.values()) + job.residual_ns
            assert parts == job.latency_ns, job
        return truth

    return program


def close(measured_ns: int, true_ns: int, more_ns: int = 0) -> bool:
    """Within 3 % or 0.5 ms."""
    return abs(measured_ns - true_ns) <= max(0.03 * true_ns, MS / 2) + more_ns


def blamed(job: Job, *culprits: str) -> int:
    return sum(ns for culprit, ns in job.culprits if culprit in culprits)


#: Who cannot have run while the victims waited, or was not found.
WRONG = ("victim", "unknown", "(no route)")


def blame_is_right(truth: Truth) -> None:
    """Who is blamed did run then (the loop itself too, and a thread that had just set a result): above all the hog."""
    waits = [row for row in truth.recording.blame if row.victim == "victim" and row.kind == "loop"]
    wrong = sum(row.ns for row in waits if row.culprit in WRONG)
    assert wrong <= 0.05 * sum(row.ns for row in waits)
    assert max(waits, key=lambda row: row.ns if row.culprit != "os" else 0).culprit == "hog"


def test_what_another_thread_sets_is_ready_when_it_was_set(run: Run, loop: str) -> None:
    truth = run("threads")
    blame_is_right(truth)
    # The thread that sets it works for no job: it comes from elsewhere. Two threads' clocks tell the truth: on a busy
    # machine they tear apart.
    blocked = [close(job.io_ns["future"], truth.more["blocked_ns"][str(job.job)]) for job, *_ in truth.pairs("victim")]
    assert any(blocked)


def test_children_belong_to_their_job(run: Run, loop: str) -> None:
    truth = run("children")
    pairs = truth.pairs("parent")
    assert all(job.cpu_ns >= 0.9 * cpu_ns for job, _, cpu_ns, _ in pairs)
    assert any(job.cpu_ns <= cpu_ns + 4 * MS for job, _, cpu_ns, _ in pairs)
    assert all("sleep" in job.io_ns for job, *_ in pairs)


def test_cancelled_work_ends_with_its_job(run: Run, loop: str) -> None:
    truth = run("cancelled")
    for route in ("timeout", "asleep"):
        for job, _, _, io_ns in truth.pairs(route):
            assert close(sum(job.io_ns.values()), io_ns, TICK_NS[loop]), job
    for route in ("before its first step", "group"):
        assert all(sum(job.io_ns.values()) < MS for job, *_ in truth.pairs(route))


def test_functions_on_threads_belong_to_their_job(run: Run, loop: str) -> None:
    truth = run("executors")
    assert all(job.cpu_ns >= 0.9 * cpu_ns for job, _, cpu_ns, _ in truth.pairs("thread"))
    for job, *_ in truth.pairs("pool"):
        # Three sleeps of 10 ms, one after the other: at every moment one of them sleeps.
        assert job.io_ns["sleep"] >= 29 * MS
    pool = [
        row for job, *_ in truth.pairs("pool") for row in truth.recording.segments(0, job.job) if row.kind == "pool"
    ]
    assert pool, "the second and third wait for the pool"


def test_a_call_that_blocks_the_loop_is_named(run: Run, loop: str) -> None:
    truth = run("blocking")
    (held,) = [row for row in truth.recording.held if row.route == "sleeper"]
    # Until it was due, which was a little less from the call on.
    assert held.ns >= 49 * MS and "sleep" in held.call
    victims = [row for row in truth.recording.blame if row.victim == "victim" and row.kind == "loop"]
    assert sum(row.ns for row in victims if row.culprit == "sleeper") >= 45 * MS


def test_a_lock_that_another_job_holds_is_a_wait(run: Run, loop: str) -> None:
    truth = run("locks")
    for job, latency_ns, *_ in truth.pairs("waiter"):
        assert job.wait_ns["pool"] >= 0.7 * latency_ns, job  # as of every resource with a name; a lock is one


def test_sums_of_many_jobs_are_exact_and_little_is_left_over(run: Run, loop: str) -> None:
    truth = run("many")
    left = sorted(abs(job.residual_ns) / max(job.latency_ns, MS) for job in truth.jobs.values())
    assert len(left) == 10_000
    assert left[int(0.99 * len(left))] <= 0.01
