"""The last words of real programs: killed in the middle, ended in order; and whether their threads were greenlets."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.record.command import greenlane, record, recorded

from greenlane_tools.report.ending import endings_of
from greenlane_tools.report.study import study_of

pytestmark = pytest.mark.slow

MS = 1_000_000

#: Killed by a thread of its own while `computes` runs.
KILLED = """
import os, signal, threading

def computes(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass

def killer(seconds):
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_loop_leaves_who_kept_it_and_for_how_long(tmp_path: Path) -> None:
    source = """
import gevent

def export():
    with greenlane.record.job("export"):
        gevent.sleep(0.05)
        computes(30)

def ping():
    with greenlane.record.job("ping"):
        gevent.sleep(0.3)

threading.Thread(target=killer, args=(1.5,)).start()
gevent.joinall([gevent.spawn(ping), gevent.spawn(export)])
"""
    assert record(KILLED + source, cwd=tmp_path).code == 137
    recording = recorded(tmp_path)
    export, ping = recording.unfinished
    assert (export.route, export.held, ping.route, ping.running_ns) == ("export", True, "ping", 0)
    assert 900 * MS <= export.running_ns <= 1_600 * MS
    assert "computes (<string>:" in export.stack
    assert export.cpu_ns + sum(export.wait_ns.values()) >= 0.95 * (export.last_ns - export.arrival_ns)
    (ending,) = endings_of(recording.processes, recording.unfinished, recording.marks)
    assert (ending.how, ending.starved) == ("cut", True)
    told = greenlane("report", "r.glr", "-o", "-", cwd=tmp_path).out
    assert "breaks off: it was killed, or still runs: export had been running for" in told
    assert "what was running at the end" in told


def test_a_killed_thread_keeps_no_loop(tmp_path: Path) -> None:
    source = """
def export():
    with greenlane.record.job("export"):
        computes(30)

threading.Thread(target=export).start()
with greenlane.record.job("waits"):
    killer(1.8)
"""
    assert record(KILLED + source, cwd=tmp_path).code == 137
    export, waits = recorded(tmp_path).unfinished
    assert (export.route, export.held) == ("export", False)
    assert export.running_ns >= 1_200 * MS
    assert "computes (<string>:" in export.stack
    assert recorded(tmp_path).stacks == []
    assert (waits.route, waits.running_ns) == ("waits", 0)


@pytest.mark.parametrize("leave", ["sys.exit(3)", "import os; os._exit(3)"])
def test_a_program_that_ends_says_so(leave: str, tmp_path: Path) -> None:
    assert record(f"work()\n{leave}", cwd=tmp_path).code == 3
    recording = recorded(tmp_path)
    assert recording.unfinished == []
    assert [what for _, _, what in recording.marks] == ["end"]


def test_the_recording_says_what_it_cost(tmp_path: Path) -> None:
    assert record("work(times=200, seconds=0.001)", cwd=tmp_path).code == 0
    recording = recorded(tmp_path)
    (cost,) = recording.costs
    assert cost.events >= 600
    assert 5_000 <= cost.thousand_ns <= 2_000_000
    assert cost.writer_ns > 0
    assert all(5_000 <= sample.loop_ns <= 2_000_000 for sample in recording.samples)
    assert cost.hooks_ns == cost.events * cost.thousand_ns // 1000
    assert " events at " in greenlane("report", "r.glr", "-o", "-", cwd=tmp_path).out
    rows = json.loads(greenlane("report", "r.glr", "--json", cwd=tmp_path).out)["rows"]
    (row,) = [row for row in rows if row["view"] == "overhead"]
    assert row["events"] == cost.events and 0 < row["cpu_frac"] < 0.5


# Jobs hand their work to a thread pool; gevent makes its threads greenlets.
POOL = """
import gevent
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(1)

def computes():
    end = time.thread_time() + 0.03
    while time.thread_time() < end:
        pass

def rank():
    with greenlane.record.job("rank"):
        pool.submit(computes).result()

gevent.joinall([gevent.spawn(rank) for _ in range(4)])
"""
PATCH = "import gevent.monkey; gevent.monkey.patch_all()\n"


@pytest.mark.parametrize("patch", [PATCH, "work()\n" + PATCH, ""])
def test_a_pool_s_threads_that_are_greenlets_are_known_as_such(patch: str, tmp_path: Path) -> None:
    ended = record(patch + POOL, cwd=tmp_path)
    assert ended.code == 0, ended.err
    recording = recorded(tmp_path)
    (process,) = recording.processes
    assert process.about["threads_are_greenlets"] is bool(patch)
    assert process.about["schema"] == "greenlane.about/1"
    said = [note.text for note in study_of(recording).notes if note.name == "green-pool"]
    assert any("made the thread pool's threads greenlets" in each for each in said) is bool(patch)


def test_threads_have_no_names_that_threading_made_up(tmp_path: Path) -> None:
    assert record(PATCH + POOL, cwd=tmp_path).code == 0
    recording = recorded(tmp_path)
    units = {segment.unit for job in recording.jobs for segment in recording.segments(job.process, job.job)}
    assert not [name for name in units if "Dummy" in name], units
