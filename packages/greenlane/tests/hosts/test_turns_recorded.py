"""A recording of our worker says how phases took turns."""

from __future__ import annotations

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
from tests.lanes.burners import until
from tests.record.command import GREENLANE, environment, greenlane, recorded

from tests.child import Child, free_port

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="threads compute side by side"),
]

APP = """
import threading, time
lock = threading.Lock()

def short():
    end = time.thread_time_ns() + 20_000_000
    while time.thread_time_ns() < end:
        pass

def locked():
    with lock:
        time.sleep(0.002)
        short()

def app(environ, start_response):
    {"/short": short, "/locked": locked}[environ["PATH_INFO"]]()
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
"""

SETTINGS = """
mode = "on"
metrics_path = "/metrics"

[lanes.heavy]
match = ["*/short", "*/locked"]
weight = "heavy"
"""


@contextmanager
def _recorded_worker(folder: Path, *options: str) -> Iterator[int]:
    """The application on our worker, under `greenlane record`; the recording is whole behind it. Its port."""
    (folder / "turns.py").write_text(APP)
    (folder / "greenlane.toml").write_text(SETTINGS)
    port = free_port()
    gunicorn = [sys.executable, "-m", "gunicorn", "-k", WORKER, "--threads", "8", "--no-control-socket", *options]
    command = [*GREENLANE, "record", "-o", "r.glr", "--", *gunicorn, "-b", f"127.0.0.1:{port}", "turns:app"]
    with Child(command, cwd=folder, env=environment(PYTHONPATH=os.environ.get("PYTHONPATH", ""))) as server:
        server.wait_port(port)
        yield port
        os.kill(server.pid, signal.SIGTERM)
        server.wait_output("recorded")


@pytest.mark.parametrize("options", [(), ("--preload",)], ids=["", "preload"])
def test_a_recording_has_the_turns_that_the_worker_counted(tmp_path: Path, options: tuple[str, ...]) -> None:
    with _recorded_worker(tmp_path, *options) as port:
        with ThreadPoolExecutor(4) as clients:
            list(clients.map(lambda _: _get(port, "/short"), range(12)))
        _get(port, "/locked")
        # The answer goes before the phase ends.
        until(lambda: re.search(r"^greenlane_heavy_phases_running\S* 0$", _metrics(port), re.MULTILINE) is not None)
        told = _metrics(port)
    found = {row.route: row for row in recorded(tmp_path).turns}
    short, locked = found["GET /short"], found["GET /locked"]
    assert short.taken >= 12 and locked.skipped >= 1, found
    for name, field in [("turns", "taken"), ("turns_express", "express"), ("skipped", "skipped")]:
        for route, row in found.items():
            assert _counted(told, name, route) == getattr(row, field), (name, row)
    said = greenlane("report", "r.glr", "-o", "-", cwd=tmp_path).out
    assert "express" in said and "skipped" in said


def _counted(metrics: str, name: str, route: str) -> int:
    found = re.search(rf'^greenlane_route_{name}_total{{.*route="{route}".*}} (\d+)', metrics, re.MULTILINE)
    assert found is not None, name
    return int(found[1])


def _metrics(port: int) -> str:
    return _get(port, "/metrics").decode()


def _get(port: int, path: str) -> bytes:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
        body: bytes = answer.read()
        return body
