"""The demo with real servers: a few seconds of stock gthread, Ctrl-C, and a parent that is killed."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from greenlane_tools.lab import processes
from greenlane_tools.lab.pricing import SCHEMA, main

pytestmark = [pytest.mark.slow, pytest.mark.system]

SHORT = ("--contenders", "gthread-64", "--utilisation", "0.4", "--seconds", "3", "--repetitions", "1")


def gone(pids: list[int], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not [pid for pid in pids if processes.descendants(pid)]:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.gate
def test_three_seconds_of_stock_gthread_leave_rows_samples_and_a_page(tmp_path: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert main((*SHORT, "--json", "--out", str(tmp_path)), out, err) == 0, err.getvalue()
    document = json.loads(out.getvalue())
    assert document["schema"] == SCHEMA
    rows = {row["endpoint"]: row for row in document["rows"]}
    assert set(rows) == {"bikes", "scooters", "quote", "surge", "receipt", "report", "search", "all"} - (
        {"scooters"} - rows.keys()
    )
    assert rows["all"]["errors"] == rows["all"]["lost"] == 0
    assert rows["bikes"]["p50_ms"] > 300  # three upstream calls of 100 ms
    assert rows["all"]["cpu_ms_per_job"] > 0 and rows["all"]["pss_mb"] > 5
    assert {path.name for path in tmp_path.iterdir()} == {"pricing.html", "rows.json", "run.json", "samples"}


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)])
def test_no_server_outlives_an_interrupted_demo(tmp_path: Path, number: signal.Signals, code: int) -> None:
    command = [
        sys.executable,
        "-m",
        "greenlane_tools.lab.pricing",
        *SHORT,
        "--seconds",
        "60",
        "--out",
        str(tmp_path),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(os.environ)) as demo:
        until = time.monotonic() + 20
        while len(family := processes.descendants(demo.pid)) < 4 and time.monotonic() < until:
            time.sleep(0.05)
        assert len(family) >= 4  # itself, the upstream, gunicorn's master and worker
        demo.send_signal(number)
        assert demo.wait(20) == code
    assert gone(family)
