"""A recording of a gigabyte is opened within 2 GB of memory, and its report is that of its last part."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from greenlane_testing import write_large_recording

pytestmark = [pytest.mark.soak, pytest.mark.timeout(570)]

GB = 1_000_000_000


def test_a_gigabyte_is_reported_within_two(tmp_path: Path) -> None:
    if shutil.disk_usage(tmp_path).free < 2 * GB:
        pytest.skip("needs 1 GB of disk")
    file = tmp_path / "large.glr"
    clocks = {"started_ns": 10**12, "started_unix_ns": 1_790_000_000 * 10**9}
    jobs = write_large_recording(file, GB, json.dumps({"schema": "greenlane.about/1", "cores": 2, **clocks}))
    assert file.stat().st_size >= GB
    brief, peak_bytes = _reported(file, "--brief")
    print(f"{jobs} jobs, {file.stat().st_size / 1e6:.0f} MB: peak of {peak_bytes / 1e6:.0f} MB\n{brief}")
    assert peak_bytes < 2 * GB
    assert "this is of its last" in brief and "GET /bikes" in brief
    # The last 100 s are 100,000 jobs, and what each was made of is known.
    said, peak_bytes = _reported(file, "--json", "--last", "100s")
    assert peak_bytes < 2 * GB
    routes = {row["route"]: row for row in json.loads(said)["rows"] if row["view"] == "route"}
    assert routes.keys() == {"GET /bikes", "GET /quote"}
    assert sum(row["samples"] for row in routes.values()) == pytest.approx(100_000, abs=500)
    for row in routes.values():
        assert (row["cpu_ms"], row["io_ms"], row["gil_ms"], row["residual_ms"]) == (0.6, 4.0, 0.4, 0.0)


def _reported(file: Path, *options: str) -> tuple[str, int]:
    """What `greenlane report` prints, and the most memory that it had."""
    out = file.with_suffix(".out")
    command = [str(Path(sys.executable).with_name("greenlane")), "report", str(file), *options]
    with out.open("wb") as stream, subprocess.Popen(command, stdout=stream) as process:
        overdue = threading.Timer(250, process.kill)
        overdue.start()
        _, status, used = os.wait4(process.pid, 0)
        overdue.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return out.read_text("utf-8"), used.ru_maxrss * 1024
