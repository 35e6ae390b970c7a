"""The split and the blame of gevent programs against what they know of themselves."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from greenlane.record.recording import open_recording
from tests.record.gevent_programs import ran

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


#: A slice of at least this is a hog's, us: 2**15.
HOG = 15


@pytest.mark.parametrize("hog", [False, True])
def test_a_hog_and_many_short_slices_are_told_apart(hog: bool, tmp_path: Path) -> None:
    program = """
begin()
import gevent

def request():
    for _ in range(4):
        with job("request"):
            burn(2.5)
            gevent.sleep(0.01)
            burn(2.5)

def report():
    for _ in range(3):
        with job("report"):
            burn(200)
        gevent.sleep(0.02)

requests = [gevent.spawn(request) for _ in range(2 if HOG else 40)]
if HOG:
    requests.append(gevent.spawn(report))
gevent.joinall(requests)
end()
"""
    recording = ran(tmp_path, f"HOG = {hog}\n{program}").recording
    waits = [one for one in recording.blame if one.victim == "request" and one.kind == "loop" and one.phase >= 0]
    long_ns = sum(sum(one.by_length_ns[HOG:]) for one in waits)
    all_ns = sum(one.ns for one in waits)
    culprits = {one.culprit for one in waits if one.ns > all_ns / 2}
    if hog:
        assert long_ns >= 0.8 * all_ns
        assert "report" in culprits
    else:
        # A slice may be long because the machine took the core away.
        assert long_ns <= 0.2 * all_ns
        assert "report" not in culprits
