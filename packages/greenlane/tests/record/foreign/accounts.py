"""What holds for the recording of any application: every answered request is a job, and its parts are its latency."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.record.foreign.application import Application, Missing
from tests.record.foreign.run import Answered, recorded

from greenlane_tools.reader import Recording, open_recording


def checked(application: Application, file: Path) -> tuple[Recording, Answered]:
    """Record it, with its accounts checked; skips what is not installed."""
    try:
        seen = recorded(application, file)
    except Missing as missing:
        pytest.skip(str(missing))
    assert seen.wrong == [], seen.output
    recording = open_recording(file)
    check(recording, seen)
    return recording, seen


def check(recording: Recording, seen: Answered) -> None:
    """Fail unless it does. An application may ask itself other things."""
    answered = [job.route for job in recording.jobs if job.status == 200]
    assert {route: answered.count(route) for route in seen.by_route} == seen.by_route, recording.notes
    for job in recording.jobs:
        parts = job.cpu_ns + sum(job.io_ns.values()) + sum(job.wait_ns.values()) + job.residual_ns
        assert parts == job.latency_ns
