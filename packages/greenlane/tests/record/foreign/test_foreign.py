"""Each application of docs/applications.md: recorded unchanged, each request counted, each nanosecond accounted for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.record.foreign import accounts
from tests.record.foreign.application import APPLICATIONS, Application

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


@pytest.mark.parametrize("application", [one.param() for one in APPLICATIONS])
def test_an_application_from_pypi_is_recorded_unchanged(application: Application, tmp_path: Path) -> None:
    file = tmp_path / "app.glr"
    recording, seen = accounts.checked(application, file)
    # Hardly anything is unexplained.
    unexplained = sorted(abs(job.residual_ns) / max(1, job.latency_ns) for job in recording.jobs)
    assert unexplained[int(0.99 * (len(unexplained) - 1))] <= 0.01

    assert sum(process.lost_events + process.torn_bytes for process in recording.processes) == 0
    greenlane = Path(sys.executable).with_name("greenlane")
    done = subprocess.run([greenlane, "report", file], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    page = file.with_suffix(".html").read_text("utf-8")
    assert page[:15].lower() == "<!doctype html>"
    assert next(iter(seen.by_route)).split()[1].split("<")[0] in page
