"""A recording of our worker says how long a request was stopped, who went before it, and how phases took turns."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.hosts.gunicorn_server import WORKER
from tests.record.command import GREENLANE, environment, greenlane, recorded

from tests.child import Child, free_port

pytestmark = [
    pytest.mark.system,
    pytest.mark.measured,  # of whom a wait is said: with neighbours it is theirs, too
    pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="threads compute side by side"),
]

MS = 1_000_000
SHORTS = 5
HOG_NS = 600 * MS

#: The hog notes each time in which it did not run, a short one when it computed: what a stop was, from outside.
APP = """
import json, threading, time
MS = 1_000_000
lock = threading.Lock()
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

def locked():
    with lock:
        time.sleep(0.002)
        short()

def app(environ, start_response):
    path = environ["PATH_INFO"]
    {"/hog": hog, "/short": short, "/locked": locked}.get(path, int)()
    body = json.dumps([stood, went]).encode()
    start_response("200 OK", [("Content-Length", str(len(body)))])
    return [body]
"""

SETTINGS = """
mode = "on"
metrics_path = "/metrics"

[lanes.heavy]
match = ["*/hog", "*/short", "*/locked"]
weight = "heavy"
"""


@contextmanager
def _recorded_worker(folder: Path, settings: str, *options: str) -> Iterator[tuple[int, Child]]:
    """The application on our worker, under `greenlane record`; the recording is whole behind it. Port and process."""
    (folder / "stops.py").write_text(APP)
    (folder / "greenlane.toml").write_text(settings)
    port = free_port()
    gunicorn = [sys.executable, "-m", "gunicorn", "-k", WORKER, "--threads", "8", "--no-control-socket", *options]
    command = [*GREENLANE, "record", "-o", "r.glr", "--", *gunicorn, "-b", f"127.0.0.1:{port}", "stops:app"]
    with Child(command, cwd=folder, env=environment(PYTHONPATH=os.environ.get("PYTHONPATH", ""))) as server:
        server.wait_port(port)
        yield port, server
        os.kill(server.pid, signal.SIGTERM)
        server.wait_output("recorded")


@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["", "preload"])
def test_a_recording_has_the_turns_that_the_worker_counted(tmp_path: Path, options: tuple[str, ...]) -> None:
    with _recorded_worker(tmp_path, SETTINGS, *options) as (port, _server):
        with ThreadPoolExecutor(4) as clients:
            list(clients.map(lambda _: _get(port, "/short"), range(12)))
        _get(port, "/locked")
        told = _get(port, "/metrics").decode()
    found = {row.route: row for row in recorded(tmp_path).turns}
    short, locked = found["GET /short"], found["GET /locked"]
    assert short.taken >= 12 and locked.skipped >= 1, found
    for name, field in [("turns", "taken"), ("turns_express", "express"), ("skipped", "skipped")]:
        for route, row in found.items():
            assert _counted(told, name, route) == getattr(row, field), (name, row)
    said = greenlane("report", "r.glr", "-o", "-", cwd=tmp_path).out
    assert "express" in said and "skipped" in said


@pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring is CPython 3.12's")
def test_a_stop_has_its_own_name_its_length_and_the_requests_that_went_before(tmp_path: Path) -> None:
    with _recorded_worker(tmp_path, f"preempt_ms = 20\n{SETTINGS}") as (port, server):
        with ThreadPoolExecutor(1) as beside:
            hog = beside.submit(_get, port, "/hog")
            server.wait_output("hog computes")
            for _ in range(SHORTS):
                _get(port, "/short")
            assert not hog.done(), "the short ones went first"
            hog.result()
        stood, went = json.loads(_get(port, "/truth"))
        counted = _counted(_get(port, "/metrics").decode(), "stops", "GET /hog")

    recording = recorded(tmp_path)
    (long,) = (job for job in recording.jobs if job.route == "GET /hog")
    short = [job for job in recording.jobs if job.route == "GET /short"]
    assert len(short) == len(went) == SHORTS
    # By one clock: a stop lies within a time in which the hog did not run, and a short one's work within a stop.
    stops = [each for each in recording.segments(long.process, long.job) if each.kind == "stopped"]
    assert sum(each.to_ns - each.from_ns for each in stops) == long.wait_ns["stopped"]
    assert all(any(begin <= each.from_ns and each.to_ns <= end for begin, end in stood) for each in stops)
    within = [sum(max(0, min(end, each.to_ns) - max(begin, each.from_ns)) for each in stops) for begin, end in went]
    # Who stands still and is next asks for the GIL every 8 ms, to see whether the other one needs it: a wait of 1 ms.
    covered = [ns >= 0.8 * (end - begin) for ns, (begin, end) in zip(within, went, strict=True)]
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
    (turns,) = (row for row in recording.turns if row.route == "GET /hog")
    assert turns.stopped == counted > 0


def _counted(metrics: str, name: str, route: str) -> int:
    found = re.search(rf'^greenlane_route_{name}_total{{.*route="{route}".*}} (\d+)', metrics, re.MULTILINE)
    assert found is not None, name
    return int(found[1])


def _get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        body: bytes = answer.read()
        return body
