"""Recording beside ddtrace, OpenTelemetry and gevent's own monitor: each keeps working, and every request is a job."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.record.foreign import accounts
from tests.record.foreign.application import CHAINS, Application

pytestmark = [pytest.mark.system, pytest.mark.timeout(240)]


@pytest.mark.parametrize("application", [one.param() for one in CHAINS])
def test_a_recording_beside_another_tool(application: Application, tmp_path: Path) -> None:
    file = tmp_path / "app.glr"
    recording, seen = accounts.checked(application, file)
    # The switches were seen as ever: the job that slept waited for the one that computed.
    assert any(row.victim == "GET /light" and row.culprit == "GET /heavy" for row in recording.blame)
    if application.name == "monitor":
        assert "appears to be blocked" in seen.output, "gevent's monitor has lost its trace"
