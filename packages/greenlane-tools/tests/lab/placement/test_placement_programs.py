"""Contenders, each really run with a few calls: counts, no timings."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from greenlane_tools.lab import processes
from greenlane_tools.lab.placement.cells import run
from greenlane_tools.lab.placement.contenders import CONTENDERS, IDLE, lacking
from greenlane_tools.lab.placement.programs.job import Job

pytestmark = pytest.mark.slow

#: Real servers and fleets: tested as such.
_FLEETS = ("dirty", "ray")
HERE = [
    pytest.param(name, loop, id=f"{name}-{loop}")
    for loop in ("asyncio", "gevent")
    for name, contender in CONTENDERS.items()
    if name not in _FLEETS and not lacking(contender, loop)
]


def job(function: str, contender: str, loop: str = "asyncio", *, callers: int = 3, calls: int = 7) -> Job:
    return Job(function, contender, loop, callers, 2, calls, iterations=2_000, passes=1, model="", result="")


def gone(pids: list[int]) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        if not [pid for pid in pids if _runs(pid)]:
            return True
        time.sleep(0.02)
    return False


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(("contender", "loop"), HERE)
def test_each_counted_call_is_one_sample(contender: str, loop: str) -> None:
    found = run(CONTENDERS[contender], job("python", contender, loop), 1)
    assert found.failed == "" and found.result.first_error == ""
    assert (len(found.result.took_ms), found.result.errors) == (7, 0)
    assert found.result.cpu_ns > 0 and found.result.seconds > 0
    assert bool(found.result.chosen) == (contender == "greenlane")


@pytest.mark.parametrize("loop", ["asyncio", "uvloop", "gevent"])
def test_a_heartbeat_alone_has_beats_and_no_calls(loop: str) -> None:
    found = run(IDLE, Job("", "idle", loop, 0, 0, 0, 0, 0, "", "", seconds=0.1), 1)
    assert found.failed == "" and not found.result.took_ms
    assert len(found.result.late_ms) > 3


def test_arrays_come_back_from_workers_and_their_bytes_are_told() -> None:
    found = run(CONTENDERS["process"], job("numpy", "process", callers=2, calls=3), 1)
    assert found.failed == "" and len(found.result.took_ms) == 3
    assert found.result.bytes_in_band < 1_000 and found.result.bytes_out_of_band == 2 * 720_000


@pytest.mark.system
@pytest.mark.parametrize("contender", _FLEETS)
def test_a_fleet_answers_and_leaves_nothing(contender: str) -> None:
    if missing := lacking(CONTENDERS[contender], "asyncio"):
        pytest.skip(missing)
    before = set(processes.descendants(os.getpid()))
    found = run(CONTENDERS[contender], job("sleep", contender), 30)
    assert found.failed == "" and found.result.first_error == ""
    assert len(found.result.took_ms) == 7
    assert gone(sorted(set(processes.descendants(os.getpid())) - before))


def test_calls_that_fail_are_errors_and_the_first_one_is_told() -> None:
    # There is no such model.
    found = run(CONTENDERS["inline"], job("catboost", "inline"), 1)
    assert found.failed == "" and not found.result.took_ms
    assert found.result.errors == 7 and found.result.first_error


def test_a_program_that_dies_is_told_with_what_it_said() -> None:
    found = run(CONTENDERS["inline"], job("no such function", "inline"), 1)
    assert found.failed.startswith("it ended without a result; it said: KeyError")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_no_process_and_no_folder(number: int, start_process, tmp_path: Path) -> None:
    out, temporary = tmp_path / "out", tmp_path / "tmp"
    temporary.mkdir()
    child = _started(start_process, out, temporary)
    below = _workers_of(child.pid)
    child.signal(number)
    assert child.wait_exit() == 130
    assert gone(below)
    assert "Traceback" not in child.output and "stopped: " in child.output
    assert list(temporary.iterdir()) == []


def test_a_killed_lab_leaves_no_process(start_process, tmp_path: Path) -> None:
    child = _started(start_process, tmp_path / "out", tmp_path)
    below = _workers_of(child.pid)
    child.signal(signal.SIGKILL)
    child.wait_exit()
    assert gone(below)


def _started(start_process, out: Path, temporary: Path):
    command = "import sys; from greenlane.cli.main import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["--functions", "sleep", "--contenders", "process-pool", "--calls", "100000", "--out", str(out)]
    arguments += ["--repetitions", "1"]
    child = start_process(
        [sys.executable, "-c", command, "lab", "placement", *arguments], env={**os.environ, "TMPDIR": str(temporary)}
    )
    child.wait_output(r"^2/3 process-pool")
    return child


def _workers_of(pid: int) -> list[int]:
    """The lab's own process, the run's, and at least one of the pool's."""
    below: list[int] = []
    until = time.monotonic() + 20
    while len(below) < 2 and time.monotonic() < until:
        below = processes.descendants(pid)[1:]
        time.sleep(0.01)
    assert len(below) >= 2
    return below


def test_the_command_prints_rows_and_verdicts_and_leaves_its_folder(tmp_path: Path, capsys) -> None:
    from greenlane.cli.main import main

    asked = ["--functions", "sleep", "--contenders", "inline,thread", "--callers", "2", "--calls", "3"]
    asked += ["--repetitions", "1"]
    assert main(["lab", "placement", *asked, "--json", "--out", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert document["schema"] == "greenlane.lab.placement/1"
    assert [row["contender"] for row in document["rows"]] == ["idle", "inline", "thread"]
    assert [one["text"] for one in document["verdicts"]] == ["thread: heartbeat p99 added"]
    assert "3/3 " in captured.err
    assert {path.name for path in tmp_path.iterdir()} == {"page.html", "rows.json", "samples.parquet"}
    assert json.loads((tmp_path / "rows.json").read_text()) == document
