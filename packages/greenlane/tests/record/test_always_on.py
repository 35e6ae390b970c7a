"""A recording that always runs: it keeps the last minutes, and a snapshot saves them, now or when it hurts."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest
from tests.record.command import GREENLANE, environment, greenlane, record, recorded
from tests.record.test_command_live import BUSY, a_few_jobs, start, until

from greenlane_tools.reader import open_recording
from tests.fixtures import StartProcess

pytestmark = [pytest.mark.slow]

#: Begins well; a file lets it hurt.
SLOWER = """
import os
print('ready', flush=True)
while True: work(times=1, seconds=0.03 if os.path.exists("slow") else 0.001)
"""

#: Likewise; then half of its jobs fail.
FAILING = """
import contextlib, os, time
print('ready', flush=True)
number = 0
while True:
    number += 1
    with contextlib.suppress(ValueError), greenlane.record.job("work"):
        time.sleep(0.005)
        if number % 2 and os.path.exists("bad"):
            raise ValueError
"""


@pytest.mark.gate
def test_a_snapshot_saves_what_was_recorded_and_the_recording_goes_on(
    tmp_path: Path, start_process: StartProcess
) -> None:
    running = start(start_process, tmp_path, BUSY)
    pid = a_few_jobs(tmp_path)
    ended = greenlane("record", "--snapshot", "--last", "5m", "-o", "now.glr", "r.glr", cwd=tmp_path)
    assert ended.code == 0 and "next: greenlane report now.glr" in ended.err, ended.err
    saved = len(open_recording(tmp_path / "now.glr").jobs)
    assert saved >= 5 and (tmp_path / "now.glr").stat().st_mode & 0o077 == 0
    again = greenlane("record", "--snapshot", "-o", "now.glr", "r.glr", cwd=tmp_path)
    assert again.code == 2 and "--force" in again.err
    ended = greenlane("record", "--snapshot", "-o", "later.glr", str(pid), cwd=tmp_path, env=environment())
    assert ended.code == 0 and len(open_recording(tmp_path / "later.glr").jobs) >= saved
    running.signal(signal.SIGINT)
    running.wait_exit()
    assert len(recorded(tmp_path).jobs) >= saved


def test_a_trigger_saves_when_a_route_is_slower_than_its_goal(tmp_path: Path, start_process: StartProcess) -> None:
    start(start_process, tmp_path, SLOWER)
    a_few_jobs(tmp_path)
    argv = [*GREENLANE, "record", "--snapshot", "--when", "work p99 > 20ms", "--last", "5m", "-o", "saved.glr", "r.glr"]
    watching = start_process(argv, cwd=tmp_path, env=environment())
    watching.wait_output("waiting for work p99 > 20ms")
    assert not list(tmp_path.glob("saved-*.glr"))
    (tmp_path / "slow").touch()
    until(lambda: list(tmp_path.glob("saved-*.glr")))
    watching.wait_output("it was")
    (file,) = tmp_path.glob("saved-*.glr")
    assert max(job.latency_ns for job in open_recording(file).jobs) > 20e6


@pytest.mark.parametrize("trigger", ["5xx > 10%", "work 5xx > 10%"])
def test_a_trigger_saves_when_jobs_fail(trigger: str, tmp_path: Path, start_process: StartProcess) -> None:
    start(start_process, tmp_path, FAILING)
    a_few_jobs(tmp_path)
    argv = [*GREENLANE, "record", "--snapshot", "--when", trigger, "--last", "5m", "-o", "saved.glr", "r.glr"]
    watching = start_process(argv, cwd=tmp_path, env=environment())
    watching.wait_output("waiting for")
    time.sleep(1.5)
    assert not list(tmp_path.glob("saved-*.glr"))
    (tmp_path / "bad").touch()
    until(lambda: list(tmp_path.glob("saved-*.glr")))
    watching.wait_output("it was .* %")
    (file,) = tmp_path.glob("saved-*.glr")
    assert any(job.status == 1 for job in open_recording(file).jobs)


def test_it_keeps_the_last_seconds_and_no_more(tmp_path: Path) -> None:
    ended = record(
        "import time; until = time.time() + 6\nwhile time.time() < until: work(times=9)", "--last", "2s", cwd=tmp_path
    )
    assert ended.code == 0, ended.err
    jobs = recorded(tmp_path).jobs
    kept_s = (max(job.end_ns for job in jobs) - min(job.arrival_ns for job in jobs)) / 1e9
    assert 1.5 < kept_s < 3.5


@pytest.mark.parametrize("text", ["p99 > 5", "GET /a p12 > 5ms", "lag < 5ms", "5xx > 5", "5xx p99 > 1%"])
def test_a_trigger_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    ended = subprocess.run(
        [*GREENLANE, "record", "--snapshot", "--when", text, "r.glr"],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 2 and "hint: " in ended.stderr
