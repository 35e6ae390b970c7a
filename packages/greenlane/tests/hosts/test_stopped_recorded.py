"""A recording of our worker says how long a request was stopped, and which requests went before it."""

from __future__ import annotations

import json
import os
import signal
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.hosts.gunicorn_server import WORKER
from tests.record.command import GREENLANE, environment, greenlane, recorded

from tests.child import Child, free_port

pytestmark = [
    pytest.mark.system,
    pytest.mark.measured,  # of whom a wait is said: with neighbours it is theirs, too
    pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring is CPython 3.12's"),
    pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="threads compute side by side"),
]

MS = 1_000_000
SHORTS = 5
HOG_NS = 600 * MS

#: The hog notes each time in which it did not run, a short one when it computed: what a stop was, from outside.
APP = """
import json, time
MS = 1_000_000
stood, went = [], []

def hog():
    print("hog computes", flush=True)
    end = time.thread_time_ns() + 600 * MS
    last = time.monotonic_ns()
    while time.thread_time_ns() < end:
        now = time.monotonic_ns()
        if now - last > 2 * MS:
            stood.append((last, now))
        last = now

def short():
    begun, end = time.monotonic_ns(), time.thread_time_ns() + 20 * MS
    while time.thread_time_ns() < end:
        pass
    went.append((begun, time.monotonic_ns()))

def app(environ, start_response):
    path = environ["PATH_INFO"]
    {"/hog": hog, "/short": short}.get(path, int)()
    body = json.dumps([stood, went]).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""

SETTINGS = """
mode = "on"
preempt_ms = 20

[lanes.heavy]
match = ["*/hog", "*/short"]
weight = "heavy"
"""


def test_a_stop_has_its_own_name_its_length_and_the_requests_that_went_before(tmp_path: Path) -> None:
    (tmp_path / "stops.py").write_text(APP)
    (tmp_path / "greenlane.toml").write_text(SETTINGS)
    port = free_port()
    gunicorn = [sys.executable, "-m", "gunicorn", "-k", WORKER, "--threads", "8", "--no-control-socket"]
    command = [*GREENLANE, "record", "-o", "r.glr", "--", *gunicorn, "-b", f"127.0.0.1:{port}", "stops:app"]
    with Child(command, cwd=tmp_path, env=environment(PYTHONPATH=os.environ.get("PYTHONPATH", ""))) as server:
        server.wait_port(port)
        with ThreadPoolExecutor(1) as beside:
            hog = beside.submit(_get, port, "/hog")
            server.wait_output("hog computes")
            for _ in range(SHORTS):
                _get(port, "/short")
            assert not hog.done(), "the short ones went first"
            hog.result()
        stood, went = json.loads(_get(port, "/truth"))
        os.kill(server.pid, signal.SIGTERM)
        server.wait_output("recorded")

    recording = recorded(tmp_path)
    (long,) = (job for job in recording.jobs if job.route == "GET /hog")
    short = [job for job in recording.jobs if job.route == "GET /short"]
    assert len(short) == len(went) == SHORTS
    # By one clock: a stop lies within a time in which the hog did not run, and a short one's work within a stop.
    stops = [each for each in recording.segments(long.process, long.job) if each.kind == "stopped"]
    assert sum(each.to_ns - each.from_ns for each in stops) == long.wait_ns["stopped"]
    assert all(any(begin <= each.from_ns and each.to_ns <= end for begin, end in stood) for each in stops)
    within = [sum(max(0, min(end, each.to_ns) - max(begin, each.from_ns)) for each in stops) for begin, end in went]
    covered = [ns >= 0.9 * (end - begin) for ns, (begin, end) in zip(within, went, strict=True)]
    # Who has no core for 6 ms is taken for blocked, and stopped ones are let go: the most of them, then.
    assert sum(covered) > SHORTS / 2, (within, went)
    assert long.cpu_ns == pytest.approx(HOG_NS, rel=0.05)
    assert all("stopped" not in job.wait_ns for job in short) and any("permit" in job.wait_ns for job in short)
    blamed = {row.culprit: row.ns for row in recording.blame if (row.victim, row.kind) == ("GET /hog", "stopped")}
    assert sum(blamed.values()) == long.wait_ns["stopped"]
    # What a busy machine takes from a short one is not its own.
    assert blamed["GET /short"] >= 0.75 * (long.wait_ns["stopped"] - blamed.get("os", 0)), blamed
    told = greenlane("report", "r.glr", "-o", "-", cwd=tmp_path).out
    heads = next(line for line in told.splitlines() if line.startswith("route") and "CPU" in line)
    assert "stopped" in heads.split() and "of it stopped" in told


def _get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        body: bytes = answer.read()
        return body
