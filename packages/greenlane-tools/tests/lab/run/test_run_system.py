"""`greenlane lab run` on real processes: faults, a service that dies, one that never comes, Ctrl-C and going on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import greenlane_tools.demo
from greenlane.cli import program
from greenlane_tools.lab import processes

pytestmark = [pytest.mark.slow, pytest.mark.system]

SERVICES = Path(greenlane_tools.demo.__file__).parent
DOOMED = Path(__file__).with_name("doomed.py")
TOP = """
name = "tiny"
question = "Does it work?"
expected = "Yes."
repetitions = {repetitions}
warm_s = 0
bounds = ["probe.p99_ms <= 5000 for server"]
"""
SERVER = f"""
[[service]]
name = "server"
command = ["{{python}}", "-m", "greenlane_tools.demo.upstream", "{{port}}", "2"]
files = ["{SERVICES / "halves.py"}", "{DOOMED}"]
listen = "tcp"
ready_s = 10

[[class]]
name = "probe"
rate_per_s = 80
connections = "keep-alive"
timeout_s = 3
"""
LOAD = """
[[phase]]
name = "load"
seconds = {seconds}
"""
ALONE = '[[contender]]\nname = "server"\n'


#: The command of SERVER, once it is filled.
QUICK = '["{python}", "-m", "greenlane_tools.demo.upstream", "{port}", "2"]'
NOTHING: Mapping[str, str] = {}


class Ran(NamedTuple):
    code: int
    out: str
    err: str
    folder: Path

    def document(self) -> dict[str, Any]:
        return json.loads((self.folder / "rows.json").read_text())  # type: ignore[no-any-return]

    def rows(self, phase: str = "all") -> Mapping[str, dict[str, Any]]:
        found = self.document()["rows"]
        return {row["contender"]: row for row in found if (row["endpoint"], row["phase"]) == ("probe", phase)}


Lab = Callable[..., Ran]


@pytest.fixture
def lab(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Lab:
    """Runs a scenario of this text in this process."""

    def run(
        text: str, *argv: str, repetitions: int = 1, seconds: float = 0.6, changes: Mapping[str, str] = NOTHING
    ) -> Ran:
        path = tmp_path / "tiny.toml"
        path.write_text(filled(text, repetitions, seconds, changes))
        # Servers and browsers that the session shares run beside it, and start and end processes of their own.
        before = set(processes.descendants(os.getpid())) - {os.getpid()}
        code = program.run(["lab", "run", str(path), "--out", str(tmp_path / "out"), *argv])
        said = capsys.readouterr()
        strangers = {pid for one in before for pid in processes.descendants(one)}
        assert set(processes.descendants(os.getpid())) - strangers <= {os.getpid()}, "every process has ended"
        return Ran(code, said.out, said.err, tmp_path / "out")

    return run


def gone(pids: list[int], seconds: float = 10.0) -> bool:
    """They end soon: a process that was killed is there until its parent, or init, has asked for it."""
    until = time.monotonic() + seconds
    while [pid for pid in pids if processes.descendants(pid)]:
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def filled(text: str, repetitions: int, seconds: float, changes: Mapping[str, str] = NOTHING) -> str:
    top = TOP.replace("{repetitions}", str(repetitions))
    whole = top + SERVER + LOAD.replace("{seconds}", str(seconds)) + text
    for before, after in changes.items():
        assert before in whole
        whole = whole.replace(before, after)
    return whole


@pytest.mark.gate
def test_a_run_leaves_rows_samples_a_page_and_a_table_and_is_not_made_again(lab: Lab) -> None:
    ran = lab(ALONE, repetitions=2)
    assert ran.code == 0, ran.err
    assert "question" not in ran.out and "tiny: Does it work?" in ran.err and "expected: Yes." in ran.err
    assert "server" in ran.out and "probe p50" in ran.out
    row = ran.rows()["server"]
    assert row["errors"] == row["lost"] == 0 and row["p50_ms"] >= 2 and row["samples"] > 50
    assert {path.name for path in ran.folder.iterdir()} == {"run.json", "rows.json", "page.html", "samples"}
    assert len(list((ran.folder / "samples").iterdir())) == 2
    again = lab(ALONE, "--json", repetitions=2)
    assert again.code == 0 and "2 of 2 runs were made before and are kept" in again.err
    assert json.loads(again.out)["rows"] == ran.document()["rows"]


def test_a_stall_is_as_long_as_it_was_and_every_request_of_it_waits(lab: Lab) -> None:
    ran = lab(ALONE + '[[fault]]\nkind = "stall"\nat_s = 0.2\nseconds = 0.5\n', seconds=1.0)
    assert ran.code == 0, ran.err
    (fault,) = ran.document()["faults"]
    assert fault["ended_ns"] - fault["began_ns"] >= 0.5e9
    row = ran.rows()["server"]
    assert row["p99_ms"] > 300 and row["errors"] == row["lost"] == 0


def test_refused_connections_are_errors_and_slow_answers_are_slow(lab: Lab) -> None:
    faults = """
    [[fault]]
    kind = "refuse"
    at_s = 0.2
    seconds = 0.4
    [[fault]]
    kind = "slow"
    at_s = 1.0
    seconds = 0.4
    delay_ms = 200
    """
    ran = lab(ALONE + faults.replace("    ", ""), seconds=1.6, changes={"keep-alive": "new"})
    assert ran.code == 0, ran.err
    row = ran.rows()["server"]
    # 0.4 s of a load of 80 a second; on a busy machine the relay hears of it late.
    assert 5 <= row["errors"] <= 80 and row["lost"] == 0
    assert row["p99_ms"] > 190
    assert [fault["kind"] for fault in ran.document()["faults"]] == ["refuse", "slow"]


def test_a_service_that_dies_is_told_with_its_last_words_and_the_rest_goes_on(lab: Lab) -> None:
    dies = '[[contender]]\nname = "dies"\ncommand = ["{python}", "doomed.py", "{port}", "20"]\n'
    ran = lab(ALONE + dies)
    assert ran.code == 1
    assert "server of dies exited" in ran.err and "gone for good" in ran.err
    rows = ran.rows()
    assert rows["server"]["errors"] == 0 and rows["dies"]["errors"] > 0
    assert {"contender": "dies", "level": "x1", "runs_missing": 0, "runs_with_a_death": ["dies-x1-0"]} in (
        ran.document()["cells"]
    )


def test_a_contender_that_does_not_come_up_is_left_out_and_the_others_run(lab: Lab) -> None:
    absent = '[[contender]]\nname = "absent"\ncommand = ["sh", "-c", "echo cannot find my configuration; exit 3"]\n'
    ran = lab(ALONE + absent)
    assert ran.code == 1
    assert "absent does not take part" in ran.err and "cannot find my configuration" in ran.err
    assert set(ran.rows()) == {"server"}


def test_when_none_comes_up_the_run_ends_with_the_reason(lab: Lab) -> None:
    ran = lab('[[contender]]\nname = "server"\ncommand = ["sh", "-c", "echo no such module; exit 3"]\n')
    assert ran.code == 2
    assert "start contender server: service='server', expected a server at 127.0.0.1:" in ran.err
    assert "no such module" in ran.err and "it exited" in ran.err


def test_a_bound_that_fails_is_printed_and_decides_the_exit_code_only_when_asked(lab: Lab) -> None:
    assert lab(ALONE, changes={"<= 5000": "<= 0.001"}).code == 0
    ran = lab(ALONE, "--check", changes={"<= 5000": "<= 0.001"})
    assert ran.code == 1 and "fails   probe.p99_ms <= 0.001 for server" in ran.out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_ends_its_processes_keeps_what_was_finished_and_goes_on(
    tmp_path: Path, lab: Lab, number: signal.Signals
) -> None:
    path = tmp_path / "tiny.toml"
    path.write_text(filled(ALONE, 40, 0.6))
    out = tmp_path / "out"
    source = "import sys; from greenlane.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", source, "lab", "run", str(path), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as running:
        until = time.monotonic() + 25
        while len(list((out / "samples").glob("*.parquet"))) < 2 and time.monotonic() < until:
            time.sleep(0.05)
        family = processes.descendants(running.pid)
        running.send_signal(number)
        _, said = running.communicate(timeout=20)
        assert running.returncode == 130, said
    assert "stopped" in said and "Traceback" not in said
    assert gone(family)
    kept = len(json.loads((out / "run.json").read_text())["done"])
    assert kept >= 2
    ran = lab(ALONE, repetitions=kept + 1)
    assert ran.code == 0 and f"{kept} of {kept + 1} runs were made before" in ran.err


def test_a_program_that_is_not_there_leaves_its_contender_out(lab: Lab) -> None:
    ran = lab(ALONE + '[[contender]]\nname = "absent"\ncommand = ["no-such-program"]\n')
    assert ran.code == 1 and set(ran.rows()) == {"server"}
    assert "start server: command='no-such-program', expected a program that can be run" in ran.err


def test_a_shared_service_that_dies_ends_the_run_with_its_last_words_and_keeps_what_was_made(lab: Lab) -> None:
    shared = '[[service]]\nname = "upstream"\ncommand = ["{python}", "doomed.py", "{port}", "1"]\nshared = true\n'
    killer = '["{python}", "doomed.py", "{port}", "60", "{upstream.port}"]'
    ran = lab(
        ALONE,
        repetitions=9,
        changes={
            "[[service]]": shared + "[[service]]",
            QUICK: killer,
        },
    )
    assert ran.code == 1
    assert "service='upstream', expected a shared service that stays" in ran.err and "gone for good" in ran.err
    assert 1 <= len(json.loads((ran.folder / "run.json").read_text())["done"]) < 9


def test_a_unix_socket_is_asked_like_a_port(lab: Lab) -> None:
    served = """
    [[contender]]
    name = "server"
    command = ["{python}", "-m", "gunicorn", "--no-control-socket", "--bind", "{address}", "halves:application"]
    """
    ran = lab(served.replace("    ", ""), changes={'"{port}", "2"': '"{address}"', '"tcp"': '"unix"'})
    assert ran.code == 0, ran.err
    assert ran.rows()["server"]["errors"] == 0


def test_a_file_that_holds_no_arrivals_is_refused_before_anything_starts(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "access.log").write_bytes(b"\x7fELF\0")
    started = tmp_path / "started"
    touch = f'["{{python}}", "-c", "open({str(started)!r}, \'w\')"]'
    replay = {"rate_per_s = 80": 'arrivals = "recorded"\nrecorded = "access.log"', QUICK: touch}
    ran = lab(ALONE, changes=replay)
    assert ran.code == 2 and not started.exists()
    assert "access.log', expected a recording (.glr), a table (.parquet, .csv), an access log" in ran.err
