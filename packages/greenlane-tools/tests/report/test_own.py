"""A lone slow job has its lines, though nobody waited for it; the flame graph has all of a route's time in one view."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.record.command import greenlane, record

from greenlane_tools.reader import open_recording
from greenlane_tools.report.own import spent
from greenlane_tools.report.study import study_of

pytestmark = pytest.mark.slow

#: Two parts of its CPU to one, then I/O: nobody else is there.
LONE = """
def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until: pass
def dear(): burn(2.0)
def cheap(): burn(1.0)
with greenlane.record.job("GET /lone"):
    dear()
    cheap()
    time.sleep(0.5)
for _ in range(20):
    with greenlane.record.job("GET /short"): burn(0.001)
"""


def test_a_lone_slow_job_has_its_lines(tmp_path: Path) -> None:
    ended = record(LONE, cwd=tmp_path)
    assert ended.code == 0, ended.err
    recording = open_recording(tmp_path / "r.glr")
    (job,) = [job for job in recording.jobs if job.route == "GET /lone"]
    rows = [row for row in recording.own if row.job == job.job]
    assert 8 <= sum(row.looks for row in rows) <= 40, rows
    assert sum(row.cpu_ns for row in rows) == pytest.approx(job.cpu_ns, abs=100)
    dear, cheap = (sum(row.cpu_ns for row in rows if f"{name} (" in row.stack) for name in ("dear", "cheap"))
    assert dear + cheap >= 0.95 * job.cpu_ns
    assert 1.2 <= dear / cheap <= 4
    assert {row.route for row in recording.own} == {"GET /lone"}
    # Nobody waited: they are nobody's culprits.
    assert sum(row.ns for row in recording.stacks) <= 0.05e9


def test_all_of_a_routes_time_is_in_one_view(tmp_path: Path) -> None:
    assert record(LONE, cwd=tmp_path).code == 0
    study = study_of(open_recording(tmp_path / "r.glr"))
    found = list(spent(study.routes, study.recording.own, study.recording.blame))
    for split in study.routes:
        of_route = [(stack.split(";")[1], ns) for stack, ns in found if stack.startswith(split.route)]
        assert sum(ns for kind, ns in of_route if kind == "CPU") == pytest.approx(split.cpu_ns, rel=1e-6)
        assert sum(ns for kind, ns in of_route if kind == "I/O") == sum(split.io_ns.values())
        assert sum(ns for kind, ns in of_route if kind.startswith("wait")) == pytest.approx(split.wait_ns, abs=10)
    ended = greenlane("report", "r.glr", "--json", cwd=tmp_path)
    rows = [row for row in json.loads(ended.out)["rows"] if row["view"] == "own"]
    assert rows[0]["route"] == "GET /lone" and rows[0]["function"] == "burn" and rows[0]["cpu_frac"] > 0.5
    assert greenlane("report", "r.glr", cwd=tmp_path).code == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    assert 'id="spent"' in page and "not looked at" in page
    ended = greenlane("report", "r.glr", "-o", "-", cwd=tmp_path)
    assert "where the slowest job computed" in ended.out
