"""The demo's options, and what it says of figures that are made up here."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from greenlane.errors import SettingsError
from greenlane_work.settings import WorkSettings
from pos.demo import article
from pos.demo.command import main
from pos.demo.options import TROUBLES, Options, course, parse
from pos.demo.results import MOST_FRAC, MOST_PARKED, rows_of, shown, verdicts_of
from pos.demo.run import Result
from pos.demo.stages import rate_per_s, waiting_most
from pos.demo.turn import Usage

USAGE = {"cpu_ns": 2 * 10**9, "wall_ns": 10 * 10**9, "pss_mb": 60.0, "processes": 1, "parked_most": None}


def slow_run(contender: str, healthy: list[float | None], **changed: Any) -> dict[str, Any]:
    """A run in which orders of one healthy merchant and of the slow one take turns, 100 ms apart."""
    orders: list[list[Any]] = []
    for number, done in enumerate(healthy):
        orders.append(["taco", number * 100.0, 1.0 if done is not None else None, done])
        orders.append(["bento", number * 100.0 + 50, 1.0, None])
    run = {
        "contender": contender, "troubled": ["bento"], "orders": orders, "start_s": 0.5, "lag_ms": 1.0,
        "until_ms": 5_000.0, "running_most": {"taco": 3, "bento": 20}, "lost": 0, "calls_repeated": 0,
        "effects_doubled": 0, "errors": 0, "usage": USAGE,
    }  # fmt: skip
    return {**run, **changed}


def full_run(contender: str, done: int, **changed: Any) -> dict[str, Any]:
    run = {
        "contender": contender, "start_s": 0.5, "done_ms": [10_000 / done * at for at in range(done)], "usage": USAGE,
        "call_s": 0.3, "emptied": False, "offered_per_s": None, "lost": 0, "calls_repeated": 0, "effects_doubled": 0,
        "errors": 0,
    }  # fmt: skip
    return {**run, **changed}


def test_what_nobody_says_is_everybody_in_both_stages() -> None:
    options = parse([])
    assert isinstance(options, Options)
    assert options.stages == ("slow-merchant", "capacity") and "gevent-200" in options.contenders
    assert (options.seconds_of("slow-merchant"), options.seconds_of("capacity")) == (35, 12)
    assert options.per_s * options.seconds_of("slow-merchant") * 0.9 == 3_150


def test_a_preset_has_its_own_stages_and_contenders() -> None:
    options = parse(["--preset", "doordash", "--seconds", "5"])
    assert isinstance(options, Options)
    assert options.stages == ("saturated", "offered") and options.contenders[:2] == ("prefork-3", "prefork-4")
    assert options.seconds_of("offered") == 5


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--contenders", "gevent"], "some of prefork-3"),
        (["--contenders", "gevent-200,gevent-200"], "each once"),
        (["--contenders", ""], "some of prefork-3"),
        (["--trouble", "three-slow"], "one of one-slow, two-slow, recovers, flood"),
        (["--preset", "lyft"], "one of ten-merchants, doordash"),
        (["--stages", "saturated"], "some of slow-merchant, capacity"),
        (["--seconds", "0"], "a number from 1 to 3600"),
        (["--seconds", "nan"], "a number from 1"),
        (["--repetitions", "1.5"], "a whole number from 1"),
        (["--per-s", "-3"], "a number from 1 to 500"),
        (["--per-s", "4", "--seconds", "4"], "20 orders or more in a run"),
        (["--queues", "mirrored"], "one of classic, quorum"),
        (["--colour", "red"], "options that exist"),
        (["--sec", "3"], "options that exist"),
    ],
)
def test_a_wrong_option_is_refused_with_its_rule_and_exit_code_2(argv: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        parse(argv)
    out, err = io.StringIO(), io.StringIO()
    assert main(argv, out, err) == 2
    assert (out.getvalue(), "run the pos demo: " in err.getvalue(), "\nhint: " in err.getvalue()) == ("", True, True)


def test_a_folder_that_cannot_be_written_is_said_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    err = io.StringIO()
    assert main(["--out", str(tmp_path / "file" / "x")], io.StringIO(), err) == 2
    assert "--out=" in err.getvalue() and "hint: give another folder" in err.getvalue()


def test_orders_wait_until_they_are_begun() -> None:
    orders = [["a", 0.0, 100.0, None], ["a", 10.0, 90.0, None], ["a", 20.0, None, None], ["a", 200.0, None, None]]
    assert waiting_most(orders) == 3
    assert waiting_most([["a", 0.0, 0.5, None], ["a", 1.0, 0.5, None]]) == 1
    assert waiting_most([]) == 0


def test_a_rate_of_whole_batches_is_that_of_their_ends() -> None:
    batches = [at for batch in range(6) for at in [100.0 + 3_200 * batch] * 4]
    assert rate_per_s(batches, 4, 20.0, 3.2) == pytest.approx(1.25)
    # Where many calls fit into a window its count is as good; a pause at its end counts as well.
    assert rate_per_s([float(at) for at in range(1_000)], 4, 2.0, 0.1) == 500
    assert rate_per_s([float(at) for at in range(1_000)], 200, 4.0, 0.3) == 250
    assert rate_per_s([], 4, 2.0, 1.0) == 0 and rate_per_s([5.0], 4, 2.0, 1.0) == 0.5
    # Not one whole batch: nothing better is known than the count.
    assert rate_per_s([100.0] * 173, 200, 10.0, 3.2) == 17.3


def test_both_classes_of_merchants_have_a_row_with_what_was_done_in_time() -> None:
    runs = [slow_run("gevent-200", [300.0, 310.0, 400.0, None]), slow_run("gevent-200", [300.0] * 4)]
    healthy, slow = rows_of(Result({"slow-merchant": {"gevent-200": runs}}, 2))
    assert (healthy["merchant_class"], slow["merchant_class"]) == ("healthy", "slow")
    assert (healthy["samples"], healthy["done"], healthy["done_frac"]) == (8, 7, 7 / 8)
    assert healthy["within_deadline_frac"] == 6 / 8 and healthy["done_low_frac"] < 7 / 8 < healthy["done_high_frac"]
    assert (healthy["p50_ms"], healthy["p95_ms"], healthy["p95_done_ms"]) == (300, None, 400)
    assert (healthy["waiting_max"], slow["waiting_max"]) == (1, 1)
    assert (slow["done"], slow["p50_ms"], slow["running_max"], healthy["running_max"]) == (0, None, 20, 3)
    assert healthy["parked_max"] is None and healthy["pss_mb"] == 60


def test_the_cliff_is_seen_by_the_time_of_the_publish() -> None:
    runs = [
        slow_run("gevent-200", [300.0] * 60 + [None] * 10, errors=2),
        slow_run("gevent-200", [300.0] * 70, errors=1),
    ]
    rows = rows_of(Result({"slow-merchant": {"gevent-200": runs}}, 2))
    assert rows[0]["by_publish"] == [
        {"from_s": 0.0, "published": 100, "done": 100}, {"from_s": 5.0, "published": 40, "done": 30},
    ]  # fmt: skip
    assert "gevent-200  100/100  30/40" in shown(rows, [])
    # CPU is that of the worker, shared among what it did for both classes.
    assert rows[0]["cpu_ms_per_job"] == rows[1]["cpu_ms_per_job"] == 4_000 / 130 and rows[0]["errors"] == 3


def test_capacity_has_rate_cpu_and_memory_of_the_whole_worker() -> None:
    (row,) = rows_of(Result({"capacity": {"prefork-4": [full_run("prefork-4", 200), full_run("prefork-4", 220)]}}, 10))
    assert row["done_per_s"] == 21 and row["cpu_utilisation_frac"] == 0.2
    assert row["cpu_ms_per_job"] == pytest.approx(200 / 21) and row["pss_mb_per_slot"] == 15


def test_doordash_rows_are_in_orders_per_hour_of_the_article() -> None:
    runs = {"saturated": {"prefork-4": [full_run("prefork-4", 100)]}, "offered": {"gevent-200": [
        full_run("gevent-200", 166, latency_ms=[3_210.0] * 99 + [None], offered_per_s=16.6)]}}  # fmt: skip
    four, gevent = rows_of(Result(runs, 10))
    assert four["per_h"] == pytest.approx(3_600) and four["done_frac"] is None
    assert gevent["done_frac"] == 0.99 and gevent["p95_ms"] == 3_210 and gevent["p99_ms"] == 3_210
    text = shown([four, gevent], [])
    assert "6,000 orders/h at 30 % of CPU" in text and "Printed figures that contradict" in text


def test_the_articles_figures_are_taken_apart_as_arithmetic_has_it() -> None:
    assert article.CALL_MS == pytest.approx(3_200) and article.per_h(1.25) == 450
    assert article.busy_slots(6_000) == pytest.approx(53.3, abs=0.1)
    assert article.offered_per_s("prefork-4") == 1.25 and article.offered_per_s("gevent-200") == pytest.approx(
        16.67, abs=0.01
    )
    text = "\n".join(article.cannot_hold())
    for figure in ("13.3 times", "1.33 times", "0.6 of what was used, 40 % less", "53 of 200", "22,500", "20,000"):
        assert figure in text


def measured(**greenlane: Any) -> Result:
    full = (("prefork-4", 130), ("gevent-200", 2_200), ("greenlane", 2_250))
    usage = {**USAGE, "parked_most": 40}
    runs = {
        "slow-merchant": {"greenlane": [slow_run("greenlane", [310.0] * 40, usage=usage, **greenlane)] * 2},
        "capacity": {name: [full_run(name, done), full_run(name, done + 10)] for name, done in full},
    }
    return Result(runs, 10)


def test_verdicts_hold_greenlane_against_what_ran_beside_it_with_intervals() -> None:
    times, cpu, done, p95, calls, held, lost, doubled = verdicts_of(measured())
    assert all(one.holds for one in (times, cpu, done, p95, calls, held, lost, doubled))
    assert times.measured == pytest.approx(2_255 / 135) and times.low < times.measured < times.high
    assert times.word == "holds (interval crosses)" and cpu.low < cpu.measured < cpu.high
    assert (done.measured, done.low, done.high, done.remark) == (0, 0, 0, "80 of 80 done")
    assert (p95.measured, p95.high, p95.target) == (310, 310, 360)
    assert (calls.measured, calls.target, held.measured, held.target) == (20, 100, 40, 1_000)
    assert "of 200 slots" in calls.remark and lost.remark == "4 runs"


def test_an_order_that_never_came_fails_its_verdicts() -> None:
    runs = [slow_run("greenlane", [310.0] * 18 + [None] * 2, lost=1)]
    done, p95, calls, lost, doubled = verdicts_of(Result({"slow-merchant": {"greenlane": runs}}, 2))
    assert (done.holds, p95.holds, calls.holds, lost.holds, doubled.holds) == (False, False, True, False, True)
    assert (done.measured, p95.row()["measured"], lost.measured) == (2, None, 1)
    text = shown(rows_of(Result({"slow-merchant": {"greenlane": runs}}, 2)), [done, p95])
    assert "≤ 360 ms: FAILS; some never came" in text and "FAILS; 18 of 20 done" in text


def test_bounds_are_those_of_the_settings_that_the_worker_runs_with() -> None:
    settings = WorkSettings(task_key="kwargs.merchant")
    assert (settings.parked_most, settings.task_most_frac) == (MOST_PARKED, MOST_FRAC)


def test_there_is_no_verdict_without_greenlane() -> None:
    assert verdicts_of(Result({"capacity": {"prefork-4": [full_run("prefork-4", 130)]}}, 10)) == []


def test_orders_of_both_slow_merchants_are_those_of_the_slow_class() -> None:
    run = slow_run("greenlane", [300.0] * 10, troubled=["bento", "taco"], running_most={"taco": 3, "bento": 20, "a": 1})
    run["orders"].append(["a", 0.0, 1.0, 310.0])
    healthy, slow = rows_of(Result({"slow-merchant": {"greenlane": [run]}}, 3))
    assert (healthy["samples"], healthy["running_max"]) == (1, 1)
    assert (slow["samples"], slow["running_max"]) == (20, 20)


def test_each_trouble_says_whose_orders_it_is_about() -> None:
    assert {name: len(course(name).troubled) for name in TROUBLES} == {
        "one-slow": 1, "two-slow": 2, "recovers": 1, "flood": 1,
    }  # fmt: skip
    assert course("recovers").laws == ((0.0, "bento", True), (0.5, "bento", False))
    assert course("flood").laws == () and course("flood").flood_per_s > 100


def test_what_two_stretches_of_a_run_used_is_one_usage() -> None:
    one, two = Usage(10, 100, 5.0, 2, None), Usage(1, 10, 7.0, 2, 3)
    assert one + two == two + one == Usage(11, 110, 7.0, 2, 3)
    assert Usage() + one == one
