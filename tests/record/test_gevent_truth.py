"""The split and the blame of gevent programs against what they know of themselves."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from greenlane.record.recording import open_recording

pytestmark = pytest.mark.slow

MS = 1_000_000
JOBS = 20


@pytest.mark.parametrize("what", ["reply", "timer", "event", "child"])
def test_cpu_io_and_wait_are_what_happened(what: str, tmp_path: Path) -> None:
    program = Path(__file__).with_name("gevent_truth.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), what, str(JOBS)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    truth = json.loads(done.stdout)
    recording = open_recording(tmp_path)
    recorded = {job.job: job for job in recording.jobs}
    pairs = [(true, recorded[int(number)]) for number, true in truth["jobs"].items()]
    assert len(pairs) == JOBS
    for _, job in pairs:
        split_ns = job.cpu_ns + sum(job.io_ns.values()) + sum(job.wait_ns.values()) + job.residual_ns
        assert split_ns == job.latency_ns
        assert job.residual_ns <= 0.01 * job.latency_ns
    # What the machine took from the victim while it ran itself is known to the recorder only.
    stretches = {
        "cpu": [(true["cpu_ns"], job.cpu_ns) for true, job in pairs],
        "blocked": [(true["blocked_ns"], sum(job.io_ns.values()) + job.wait_ns.get("lock", 0)) for true, job in pairs],
        "wait": [(true["wait_ns"], job.wait_ns.get("loop", 0)) for true, job in pairs],
    }
    for name, both in stretches.items():
        # The median: the machine may take the core away between the program's clock and ours.
        off_ns = statistics.median(abs(told - true) - max(0.03 * true, 0.5 * MS) for true, told in both)
        assert off_ns <= 0, (name, both)
    blame = {one.culprit: one.ns for one in recording.blame if one.victim == "victim" and one.kind == "loop"}
    wait_ns = sum(truth["blame"].values())
    right_ns = sum(min(ns, blame.get(culprit, 0)) for culprit, ns in truth["blame"].items())
    assert right_ns >= 0.95 * wait_ns, (truth["blame"], blame)
