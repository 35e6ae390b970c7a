"""Recording beside ddtrace, OpenTelemetry and gevent's own monitor: each keeps working, and every request is a job."""

from __future__ import annotations

from pathlib import Path

import pytest

from greenlane.record import open_recording
from tests.record.foreign.application import CHAINS, Application, Missing
from tests.record.foreign.run import recorded

pytestmark = [pytest.mark.system, pytest.mark.timeout(600, method="thread")]


@pytest.mark.parametrize("application", CHAINS, ids=lambda one: str(one.name))
def test_a_recording_beside_another_tool(application: Application, tmp_path: Path) -> None:
    file = tmp_path / "app.glr"
    try:
        seen = recorded(application, file)
    except Missing as missing:
        pytest.skip(str(missing))
    assert seen.wrong == [], seen.output
    recording = open_recording(file)
    answered = [job.route for job in recording.jobs if job.status == 200]
    assert {route: answered.count(route) for route in seen.by_route} == seen.by_route, recording.notes
    for job in recording.jobs:
        parts = job.cpu_ns + sum(job.io_ns.values()) + sum(job.wait_ns.values()) + job.residual_ns
        assert parts == job.latency_ns
    # The switches were seen as ever: who slept waited for who computed.
    assert any(row.victim == "GET /light" and row.culprit == "GET /heavy" for row in recording.blame)
    if application.name == "chains-monitor":
        assert "appears to be blocked" in seen.output, "gevent's monitor has lost its trace"
