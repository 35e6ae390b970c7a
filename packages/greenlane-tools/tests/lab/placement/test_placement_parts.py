"""Functions, rows, verdicts, tables and page, without a process."""

from __future__ import annotations

import io
import math
import pickle
from pathlib import Path

import pytest
from tests.lab.placement.made import cell, run

from greenlane.cli.main import main
from greenlane.cli.output import Output
from greenlane_tools.lab.placement import cells, contenders, functions, perform, work
from greenlane_tools.lab.placement.cells import Run
from greenlane_tools.lab.placement.perform import shown
from greenlane_tools.lab.placement.programs import places
from greenlane_tools.lab.placement.programs.result import PLACEMENTS, crossing_bytes


def test_items_are_3000_rows_of_50_fields_and_60_features_come_of_each() -> None:
    import json

    body = work.items(5)
    assert [len(item) for item in json.loads(body)] == [50] * 5
    assert work.items(5) == body and work.items(5, seed=2) != body
    found = work.features(memoryview(body))
    assert found.shape == (5, work.FEATURES) and found.dtype == "f4"


def test_the_functions_give_what_they_say() -> None:
    values = work.table()
    assert (values.shape, values.dtype) == ((work.ITEMS, work.FEATURES), "f4")
    found = work.standardised(values, 2)
    assert found.dtype == "f4" and abs(float(found.mean())) < 1e-3
    assert work.squares(4) == 14
    assert work.nap(0) == 0
    assert pickle.loads(work.packed_call(work.squares, pickle.dumps((4,), 5))) == 14


def test_every_function_can_be_sent_by_name() -> None:
    from greenlane.placement.processes.names import found, shipped

    for function in functions.FUNCTIONS.values():
        fn, _ = function.made(functions.Amounts(1, 1))
        assert found(str(shipped(fn))) is fn


def test_every_contender_has_a_program() -> None:
    assert {*places.OPENED, *PLACEMENTS, "dirty"} == set(contenders.CONTENDERS)


def test_bytes_cross_in_band_or_out_of_band_or_not_at_all() -> None:
    values = work.table()
    given = work.standardised, (values, 1), values
    assert crossing_bytes("thread", *given) == (0, 0)
    in_band, out_of_band = crossing_bytes("process", *given)
    assert in_band < 1_000 and out_of_band == 2 * values.nbytes
    assert crossing_bytes("ray", *given)[1] == 2 * values.nbytes
    in_band, out_of_band = crossing_bytes("process-pool", *given)
    assert in_band > 2 * values.nbytes and out_of_band == 0


def test_what_is_missing_is_named_with_what_installs_it() -> None:
    ray = contenders.CONTENDERS["ray"]
    assert contenders.lacking(ray, "gevent") == "not measured on gevent: use --loop asyncio"
    assert contenders.needs_of("") == ""
    no_such = contenders.Contender("mine", "", needs="gunicorn.dirty_no_such")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(contenders._PACKAGES, "gunicorn.dirty_no_such", "gunicorn>=99")  # type: ignore[arg-type]
        said = contenders.lacking(no_such, "asyncio")
    assert said == "gunicorn with dirty_no_such is not installed: pip install 'gunicorn>=99'"


def test_cells_are_every_function_with_every_contender_and_the_idle_heartbeat() -> None:
    chosen = [functions.FUNCTIONS["python"], functions.FUNCTIONS["sleep"]]
    ours = [contenders.CONTENDERS[name] for name in ("inline", "greenlane")]
    found = cells.cells_of(chosen, ours, [4, 1], "asyncio", lambda function: 7)
    assert len(found) == 1 + 2 * 2 * 2
    assert found[0].function is None and found[0].warm == 0
    assert {one.warm for one in found if one.contender.name == "greenlane"} == {cells.LEARNING_CALLS}
    assert found[1].job("asyncio", functions.Amounts(5, 6, "m")).iterations == 5
    assert cells.expected_all_s(found, 2) == 2 * cells.expected_all_s(found, 1) > 0


def test_rows_pool_repetitions_and_say_what_is_missing() -> None:
    measured = {
        cell("", "idle"): [run([], [1.0, 1.0])],
        cell("python", "thread"): [run([10, 20], [2.0]), run([30, 40], [3.0], errors=1, first_error="E: broken")],
        cell("python", "ray", missing="ray is not installed"): [],
        cell("python", "loky"): [Run(run([]).result, "it took too long", 0.5)],
    }
    idle, thread, ray, loky = cells.rows_of(measured)
    assert (idle["function"], idle["p50_ms"], idle["heartbeat_p99_ms"]) == ("", None, 1.0)
    assert (thread["p50_ms"], thread["p99_ms"], thread["samples"], thread["errors"]) == (20, 40, 4, 1)
    assert (thread["heartbeat_p99_ms"], thread["heartbeat_added_p99_ms"]) == (3.0, 2.0)
    assert thread["cpu_ms_per_job"] == pytest.approx(25)
    assert thread["missing"] == "E: broken"
    assert (ray["missing"], ray["samples"], ray["p50_ms"]) == ("ray is not installed", 0, None)
    assert (loky["missing"], loky["others_cores"]) == ("it took too long", 0.5)


def _judged(**medians_ms: float) -> list[perform.Verdict]:
    measured = {cell("", "idle"): [run([], [0.5])]}
    measured |= {cell("python", name): [run([ms] * 3, [1.0])] for name, ms in medians_ms.items()}
    return perform.verdicts_of(measured)


def test_ours_is_held_against_the_best_fixed_placement() -> None:
    factor, later, added, work_done = _judged(inline=100, thread=102, process=90, greenlane=98)
    assert "process, the best fixed placement" in factor.text and factor.measured == pytest.approx(98 / 90)
    assert factor.holds and later.holds and added.holds and work_done.holds
    assert work_done.measured == pytest.approx(100 / 102)
    assert _judged(inline=100, thread=103, process=90, greenlane=100)[0].word == "FAILS"
    assert _judged(inline=100, thread=103, process=90, greenlane=100)[3].word == "FAILS"


def test_nothing_is_claimed_of_what_was_not_measured() -> None:
    assert _judged(inline=100, process=90, greenlane=100) == []
    assert [one.text for one in _judged(thread=100)] == ["thread: heartbeat p99 added"]


def test_repetitions_give_an_interval_and_one_gives_none() -> None:
    (alone,) = _judged(thread=100)
    assert math.isnan(alone.low) and "[" not in alone.said()
    idle, thread = ([run([9], [late]) for late in lates] for lates in ((0.1, 0.1, 0.1), (1.0, 1.2, 1.1)))
    (added,) = perform.verdicts_of({cell("", "idle"): idle, cell("sleep", "thread"): thread})
    assert added.low < 1.0 < added.high < 5 and added.word == "holds"


def test_tables_and_page_say_what_was_chosen_and_what_is_missing(tmp_path: Path) -> None:
    measured = {
        cell("", "idle"): [run([], [0.2])],
        cell("python", "inline"): [run([100], [90.0])],
        cell("python", "thread"): [run([100], [1.0])],
        cell("python", "process"): [run([100], [1.0])],
        cell("python", "greenlane"): [run([100], [1.0], chosen="process", reason="300 ms of <Python>")],
        cell("python", "ray", missing="ray is not installed"): [],
    }
    result = shown(measured, {"cores": 2})
    said = {row["contender"]: row["said"] for row in result.tables[0].rows}
    assert (said["greenlane"], said["ray"]) == ("process", "ray is not installed")
    html = result.page()
    assert "python, 4 callers: greenlane chose process" in html
    assert "300 ms of &lt;Python&gt;" in html and "ray is not installed" in html and "4 of 4 claims hold" in html
    assert shown({cell("", "idle"): []}, {}).page()
    assert result.samples is not None and len(result.samples()["ms"]) == 4 + 5
    pyarrow = pytest.importorskip("pyarrow.parquet")
    out = Output(io.StringIO(), io.StringIO())
    assert result.show(tmp_path, "try", out, as_json=False) == 0
    assert pyarrow.read_table(tmp_path / "samples.parquet").num_rows == 4 + 5
    assert "python, 4 callers: thread: heartbeat p99 added" in out.out.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--functions", "jsn"], "did you mean 'json'?"),
        (["--functions", "json,json"], "each once"),
        (["--contenders", "threads"], "--contenders='threads', expected some of inline"),
        (["--callers", "0"], "a whole number from 1 to 1000"),
        (["--callers", "4,4"], "each number once"),
        (["--loop", "trio"], "one of asyncio, uvloop, gevent"),
        (["--seconds", "0"], "a number from 0.001 to 3600"),
        (["--seconds", "long"], "a number from 0.001"),
        (["--calls", "-1"], "a whole number from 1"),
        (["--repetitions", "0"], "a whole number from 1 to 100"),
        (["--out", "/proc/no/such"], "a folder that can be written"),
    ],
)
def test_a_wrong_option_is_refused_before_anything_runs(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lab", "placement", *arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err and "hint: " in captured.err
    assert not captured.out
