"""The programs, each really run with a few requests: what they record is whole and ordered. Counts, no timings."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from greenlane.errors import GreenlaneError
from greenlane_tools.lab import processes
from greenlane_tools.lab.part3 import cells, rows
from greenlane_tools.lab.part3.cells import run
from greenlane_tools.lab.part3.rows import little
from greenlane_tools.lab.part3.runtimes import RUNTIMES, Runtime, Shape, missing

HERE = [pytest.param(runtime, id=name) for name, runtime in RUNTIMES.items() if not missing(runtime)]

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("runtime", HERE)
def test_every_request_has_its_marks_in_order_and_a_place_of_its_own(runtime: Runtime) -> None:
    found = run(runtime, Shape(2, 6, calls=2), 3, 8, yields=100)
    assert len(found.requests) == 8
    for request in found.requests:
        times = [request.arrival_ns, request.spawn_ns, *request.marks_ns]
        assert len(request.marks_ns) == 6
        assert times == sorted(times)
        assert found.began_ns <= request.arrival_ns and request.end_ns <= found.ended_ns
    assert found.cpu_ns > 0 and found.yield_ns is not None and found.yield_ns > 0
    # A place is taken when it is free: never more than three at a time, and Little's law holds by the arrival.
    law = little([found])
    assert law.arrival + law.empty == pytest.approx(3, abs=1e-9)
    assert law.handler <= law.spawn + 1e-9 <= law.arrival + 2e-9


@pytest.mark.parametrize("runtime", HERE)
def test_calls_at_once_are_one_wait(runtime: Runtime) -> None:
    found = run(runtime, Shape(0, 6, calls=3, together=True), 1, 2)
    assert [len(request.marks_ns) for request in found.requests] == [4, 4]


@pytest.mark.parametrize("name", ["gevent", "threads", "greenlane"])
def test_by_the_clock_each_request_has_all_of_its_cpu_time(name: str) -> None:
    # Counted work has less on a core that became faster since it was counted; this never has.
    found = run(RUNTIMES[name], Shape(10, 2), 2, 12, by_clock=True)
    assert found.cpu_ns >= 12 * 10e6


def test_a_program_that_fails_is_named_with_what_it_said() -> None:
    broken = Runtime("broken", "", "no_such_program")
    with pytest.raises(GreenlaneError, match=r"runtime='broken', expected .*No module named"):
        run(broken, Shape(1, 1), 1, 1)


def test_rows_are_pooled_over_repetitions_and_every_request_is_kept() -> None:
    asked = [cells.Cell(RUNTIMES["threads"], Shape(1, 2), 2, 5)]
    measured = cells.measure(cells.with_baselines(asked), repetitions=2, seed=3)
    (row,) = rows.rows_of(measured)
    assert (row["samples"], row["repetitions"], row["requests"]) == (10, 2, 5)
    kept = cells.samples(measured)
    assert {len(column) for column in kept.values()} == {20}
    assert set(kept["repetition"]) == {0, 1}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_no_process_and_no_folder(number: int, start_process, tmp_path: Path) -> None:
    command = "import sys; from greenlane.cli.main import main; sys.exit(main(sys.argv[1:]))"
    arguments = ["lab", "part3", "--runtimes", "gevent", "--green-threads", "1", "--network-ms", "20000"]
    child = start_process([sys.executable, "-c", command, *arguments], env={**os.environ, "TMPDIR": str(tmp_path)})
    child.wait_output(r"^1/1 gevent")
    below: list[int] = []
    until = time.monotonic() + 20
    while not below and time.monotonic() < until:
        below = processes.descendants(child.pid)[1:]
        time.sleep(0.01)
    assert below
    child.signal(number)
    assert child.wait_exit() == 130
    # Killed with their parent; they are gone once init, which may be slow on a busy machine, has reaped them.
    until = time.monotonic() + 10
    while (left := [pid for pid in below if Path(f"/proc/{pid}").exists()]) and time.monotonic() < until:
        time.sleep(0.05)
    assert not left
    assert "Traceback" not in child.output and "stopped: " in child.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--preset", "lyft-5-56"], "--preset='lyft-5-56', expected one of lyft-5-55"),
        (["--preset", "cpu-only", "--calls", "2"], "--calls='2', expected left out beside --preset"),
        (["--runtimes", "gevnet"], "did you mean 'gevent'?"),
        (["--runtimes", "gevent,gevent"], "each once"),
        (["--green-threads", "0"], "a whole number from 1 to 2000"),
        (["--green-threads", "5,5"], "each number once"),
        (["--cpu-ms", "much"], "a number from 0 to 10000"),
        (["--cpu-ms", "0", "--network-ms", "0"], "above 0"),
        (["--requests", "0"], "a whole number from 1"),
        (["--repetitions", "1.5"], "a whole number from 1 to 100"),
        (["--calls", "0", "--network-ms", "5"], "--calls='0', expected at least 1 beside --network-ms 5"),
        (["--cpu-ms", ""], "--cpu-ms='', expected a number"),
        (["--out", "/proc/no/such"], "a folder that can be written"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_runs(arguments: list[str], said: str, capsys) -> None:
    from greenlane.cli.main import main

    assert main(["lab", "part3", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and "hint: " in captured.err
    assert not captured.out and "1/" not in captured.err


def test_node_is_skipped_by_name_where_it_is_missing(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    from greenlane.cli.main import main

    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["lab", "part3", "--runtimes", "node"]) == 2
    assert "skipped node: there is no `node` in PATH" in capsys.readouterr().err
    asked = ["--runtimes", "node,threads", "--cpu-ms", "1", "--network-ms", "1", "--green-threads", "1"]
    assert main(["lab", "part3", *asked, "--requests", "2", "--json"]) == 0
    captured = capsys.readouterr()
    assert "skipped node" in captured.err
    assert [row["contender"] for row in json.loads(captured.out)["rows"]] == ["threads"]


@pytest.mark.parametrize("preset", ["lyft-5-55", "lyft-50-150", "lyft-5x11", "serial-parallel", "cpu-only"])
def test_every_preset_runs_and_stands_beside_what_is_known(preset: str, tmp_path: Path, capsys) -> None:
    pytest.importorskip("pyarrow")
    from greenlane.cli.main import main

    arguments = ["--preset", preset, "--requests", "4", "--runtimes", "gevent", "--out", str(tmp_path)]
    if preset == "lyft-5x11":
        arguments += ["--green-threads", "9"]
    assert main(["lab", "part3", *arguments]) == 0
    out = capsys.readouterr().out
    assert "Little's law" in out and "What the published figures hide" in out
    document = json.loads((tmp_path / "rows.json").read_text())
    assert document["schema"] == "greenlane.lab.part3/1"
    assert any(name.startswith(("published_", "model_")) for row in document["rows"] for name in row)
    assert (tmp_path / "page.html").read_text().startswith("<!doctype html>")
