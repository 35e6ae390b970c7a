"""The ladder's own arithmetic: lag from rounds, categories of stacks, orders, options, verdicts of made-up figures."""

from __future__ import annotations

import io
import math
import random
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from feed.ladder import loaded
from feed.ladder.command import main
from feed.ladder.options import ALL, OURS, Options, parse
from feed.ladder.rows import loop_lag_ms, parts_cpu_ms, rows_of, verdicts_of
from feed.ladder.run import Kept, Result
from feed.ladder.shares import category_of, shares, stacks
from feed.ladder.tables import shown, steps_of
from feed.ladder.truth import is_sorted
from feed.service.stages import Rounds
from feed.world.world import World
from greenlane.errors import SettingsError

# --- how late the loop looks


def test_lag_is_what_an_arrival_at_a_random_moment_meets() -> None:
    # 10 rounds of 20 ms in 1 s: an arrival meets one with probability 0.2 and then waits evenly 0 to 20 ms, so 1 in 100
    # waits longer than 19 ms.
    assert loop_lag_ms({"1": (10, 200_000_000)}, 1.0) == pytest.approx(19.0)


def test_lag_agrees_with_arrivals_that_are_thrown_at_rounds() -> None:
    source = random.Random(1)
    lengths_ns = [round(source.lognormvariate(0, 1) * 1e6) for _ in range(2_000)]
    rounds = Rounds()
    for length_ns in lengths_ns:
        rounds.took(length_ns)
    seconds = 20.0
    busy_frac = sum(lengths_ns) / (seconds * 1e9)
    arrivals = source.choices(lengths_ns, lengths_ns, k=20_000)
    late_ms = [source.random() * ns / 1e6 if source.random() < busy_frac else 0.0 for ns in arrivals]
    late_ms.sort()
    found = loop_lag_ms({str(place): (count, ns) for place, count, ns in rounds.rows()}, seconds)
    assert found is not None
    assert found == pytest.approx(late_ms[round(0.99 * len(late_ms))], rel=0.1)


def test_a_service_that_counts_no_rounds_has_no_lag() -> None:
    assert loop_lag_ms({}, 1.0) is None


def test_a_loop_that_is_idle_is_never_late() -> None:
    assert loop_lag_ms({"1": (10, 1_000_000)}, 10.0) == 0.0


# --- shares of CPU


@pytest.mark.parametrize(
    ("stack", "category"),
    [
        ("_run_once (asyncio/base_events.py);from_json (feed/record.py);raw_decode (json/decoder.py)", "JSON"),
        (
            "Queue._feed (multiprocessing/queues.py:211);ForkingPickler.dumps (multiprocessing/reduction.py:48)",
            "pickle",
        ),
        ("run_app (aiohttp/web.py);_run_once (asyncio/base_events.py);select (service/clock.py:54)", "loop"),
        (
            "run_app (aiohttp/web.py);read_response (redis/connection.py);timeout (asyncio/timeouts.py)",
            "records from Redis",
        ),
        ("wait_result_broken_or_wakeup (concurrent/futures/process.py);recv (multiprocessing/connection.py)", "pickle"),
        ("run (concurrent/futures/process.py)", "executor"),
        ("scored (feed/variants/plain.py);features_of (feed/features.py);row (feed/features.py)", "features"),
        ("scored (feed/variants/plain.py);predict (catboost/core.py)", "predict"),
        ("ranked (feed/variants/plain.py);_sorted (feed/variants/plain.py);<lambda> (feed/variants/plain.py)", "sort"),
        ("_run_once (asyncio/base_events.py);read (redis/_parsers/hiredis.py)", "records from Redis"),
        ("start (aiohttp/web_protocol.py);arranged (feed/service/rules.py)", "rules"),
        ("<module> (somewhere.py)", "other"),
        ("no frame at all", "other"),
    ],
)
def test_a_stack_belongs_to_its_innermost_frame_that_is_known(stack: str, category: str) -> None:
    assert category_of(stack) == category


def test_shares_are_longest_first_and_one_native_call_is_divided_by_its_own_clocks() -> None:
    found = stacks(["_ranked (feed/variants/greenlane.py) 75", "select (selectors.py) 25", "nonsense"])
    stages = {"features": {"cpu_ms": 2.0}, "predict": {"cpu_ms": 1.0}, "sort": {"cpu_ms": 0.0}}
    parts = shares(found, stages)
    assert list(parts) == ["features", "loop", "predict", "sort"]
    assert parts["features"] == pytest.approx(0.5)
    assert sum(parts.values()) == pytest.approx(1.0)


def test_nothing_sampled_is_no_share() -> None:
    assert shares(Counter(), {}) == {}


# --- orders and questions


def test_only_scores_closer_than_the_tolerance_may_be_exchanged() -> None:
    assert is_sorted([3.0, 2.0, 2.000009, 1.0])
    assert not is_sorted([3.0, 2.0, 2.00002, 1.0])
    # Many small steps the wrong way are a wrong order, too.
    assert not is_sorted([1.0 + 0.9e-5 * step for step in range(4)])
    assert is_sorted([])


def test_who_asks_has_a_history_and_one_in_25_is_very_active(world: World) -> None:
    users = loaded.asking(world.people, 50, 2_000)
    people = [world.people.user(user) for user in users]
    assert len(set(users)) == 50
    assert all(person.seen or person.categories for person in people)
    assert sum(person.active for person in people) == 2


def test_a_plan_asks_everybody_equally_often_and_is_the_same_again() -> None:
    plan = loaded.plan("127.0.0.1:1", [1, 2, 3, 4], 10.0, 2.0, "seed")
    assert plan == loaded.plan("127.0.0.1:1", [1, 2, 3, 4], 10.0, 2.0, "seed")
    assert [len(stream.arrivals.at_ns) for stream in plan.streams] == [5, 5, 5, 5]  # type: ignore[union-attr]
    assert plan != loaded.plan("127.0.0.1:1", [1, 2, 3, 4], 10.0, 2.0, "other")


def test_users_take_turns() -> None:
    asked = list(islice(loaded.in_turn([1, 2, 3], random.Random(1)), 6))
    assert sorted(asked[:3]) == sorted(asked[3:]) == [1, 2, 3]


# --- the command line


def test_greenlane_is_always_measured_and_variants_stand_in_the_order_of_the_ladder() -> None:
    options = parse(["--variants", "pool,inline"])
    assert isinstance(options, Options)
    assert options.variants == ("inline", "pool", OURS)
    assert isinstance(parse([]), Options)


@pytest.mark.parametrize(
    ("argv", "setting"),
    [
        (["--variants", "golang"], "--variants"),
        (["--variants", "pool,pool"], "--variants"),
        (["--seconds", "none"], "--seconds"),
        (["--repetitions", "0"], "--repetitions"),
        (["--nonsense"], "arguments"),
    ],
)
def test_a_wrong_option_is_named(argv: list[str], setting: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse(argv)
    assert error.value.name == setting
    out, err = io.StringIO(), io.StringIO()
    assert main(argv, out, err) == 2
    assert "hint: greenlane demo feed --help" in err.getvalue()


def test_help_names_every_variant() -> None:
    out = io.StringIO()
    assert main(["--help"], out, io.StringIO()) == 0
    assert all(name in " ".join(out.getvalue().split()) for name in ALL)


# --- what is kept


def test_an_interrupted_run_goes_on_and_a_finished_one_begins_anew(tmp_path: Path) -> None:
    asked: list[int] = []

    def measure() -> dict[str, tuple[int, int]]:
        asked.append(1)
        return {"a": (1, 2)}

    first = Kept(tmp_path, {"seed": 1}, fresh=False)
    # What is measured now reads as what was kept: as JSON has it.
    assert first.part("one", measure) == {"a": [1, 2]}
    again = Kept(tmp_path, {"seed": 1}, fresh=False)
    assert again.part("one", measure) == {"a": [1, 2]}
    assert len(asked) == 1
    again.complete()
    assert len(Kept(tmp_path, {"seed": 1}, fresh=False)) == 0


@pytest.mark.parametrize(("identity", "fresh"), [({"seed": 2}, False), ({"seed": 1}, True)])
def test_parts_of_another_run_are_forgotten(tmp_path: Path, identity: dict[str, object], fresh: bool) -> None:
    Kept(tmp_path, {"seed": 1}, fresh=False).part("one", lambda: 1)
    assert len(Kept(tmp_path, identity, fresh=fresh)) == 0


def test_a_file_that_is_no_run_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("nonsense")
    assert len(Kept(tmp_path, {"seed": 1}, fresh=False)) == 0


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SettingsError, match="--out"):
        Kept(tmp_path / "file" / "below", {}, fresh=False)


# --- verdicts


def cell(cpu_ms: float, p95_ms: float, pss_mb: float) -> dict[str, Any]:
    """A repetition of 20 requests."""
    usage = {
        "seconds": 10.0, "requests": 20, "main_ms": 20 * cpu_ms, "workers_ms": 0.0, "path_ms": 0.0, "machine_ms": 0.0,
        "others_ms": 0.0, "bytes_moved": 0, "problems": 0, "reasons": {}, "rounds": {},
        "site_ms": {"history": 1.0, "models": 10.0, "shards": 40.0},
        "stages": {"features": {"wall_ms": 1.0, "cpu_ms": 1.0, "io_ms": 0.0, "wait_ms": 0.0, "wait_most_ms": 0.0}},
    }  # fmt: skip
    return {
        "latency_ms": [p95_ms] * 20, "errors": 0, "per_s": 2.0, "usage": usage, "pss_mb": pss_mb, "processes": 1,
        "warning": "",
    }  # fmt: skip


def test_what_answers_lacked_under_load_is_told_by_cell_and_reason() -> None:
    result = figures(100.0, 5.0)
    # The same for both repetitions.
    usage = result.pairs["inline"]["cells"][OURS][0]["usage"]
    usage |= {"problems": 3, "reasons": {"history: gone": 2, "paging: x": 1}}
    verdict = verdicts_of(result)[1]
    assert (verdict.measured, verdict.holds) == (6, False)
    assert verdict.remark == f"6 of {OURS} at 2/s; most often history: gone; paging: x"


def test_cpu_of_a_request_is_told_by_part() -> None:
    wanted = {"service": 8.0, "workers": 0.0, "history": 0.05, "models": 0.5, "shards": 2.0}
    assert parts_cpu_ms([cell(8.0, 50.0, 100.0)] * 2) == pytest.approx(wanted)


def figures(inline_ms: float, ours_ms: float, wrong: int = 0, others: tuple[str, ...] = ()) -> Result:
    """Of `inline` and ours, with paths that are nine tenths of the CPU; the others are as `inline`."""
    names = ("inline", *others, OURS)
    spent_ms = {name: ours_ms if name == OURS else inline_ms for name in names}

    def itself(name: str) -> dict[str, Any]:
        orders = {"right": 2 - wrong, "of": 2, "exchanged": 0, "ndcg": 0.9, "orders": {"1": "a", "2": "b"}}
        most = {"max_per_s": 30.0 if name == OURS else 3.0, "bounded_by": "its loop"}
        return {
            "orders": orders, "rush": {"per_s": 4.0}, "most": most, "shares": {"JSON": 0.6, "pickle": 0.4}, "costs": {},
            "placements": [],
        }  # fmt: skip

    def costs(ms: float) -> dict[str, float]:
        return {"cpu_ms": ms, "path_cpu_ms": 0.9 * ms, "wall_ms": ms}

    def cells(name: str) -> list[dict[str, Any]]:
        return [cell(spent_ms[name], 60.0 if name == OURS else 300.0, 50.0 if name == OURS else 200.0)] * 2

    pairs = {
        name: {
            "per_s": 2.0, "costs": {one: costs(spent_ms[one]) for one in (name, OURS)},
            "cells": {one: cells(one) for one in (name, OURS)},
        }
        for name in names
    }  # fmt: skip
    outage = {
        "asked": 10, "late": 0, "errors": 0, "latest_ms": 90.0, "recovered_ms": 20.0,
        "degraded": {"before": 0, "without": 3, "after": 0},
    }  # fmt: skip
    ladder = {name: cells(name) for name in names} if "pool" in names else {}
    return Result({name: itself(name) for name in names}, pairs, ladder, outage, 2, 0)


def words(result: Result) -> dict[str, bool]:
    return {verdict.text.partition(",")[0]: verdict.holds for verdict in verdicts_of(result)}


def test_claims_hold_or_fail_by_what_was_measured() -> None:
    good = words(figures(inline_ms=260.0, ours_ms=10.0))
    assert all(good.values())
    assert {"ranking path's CPU", "whole request's CPU"} <= good.keys()
    bad = words(figures(inline_ms=50.0, ours_ms=10.0))
    assert not bad["ranking path's CPU"]
    assert not bad["whole request's CPU"]


def test_one_wrong_order_fails() -> None:
    verdict = verdicts_of(figures(260.0, 10.0, wrong=1))[0]
    assert not verdict.holds
    assert "FAILS" in verdict.said()
    assert "wrong in inline, greenlane" in verdict.said()


def test_of_every_variant_there_is_a_row_a_step_and_a_verdict() -> None:
    others = tuple(name for name in ALL if name not in ("inline", OURS))
    result = figures(260.0, 10.0, others=others)
    rows, verdicts, steps = rows_of(result), verdicts_of(result), steps_of(result)
    assert {row["contender"] for row in rows} == set(ALL)
    assert all(row["p95_ms"] == (60.0 if row["contender"] == OURS else 300.0) for row in rows if row["stage"] is None)
    assert [step.theirs.split(";")[0] for step in steps] == [
        "+35 %", "about 100 ms", "80 ms", "+270 ms, 4 MB a request, 12 MB for very active users",
        "estimated −140 ms (70 serialisation, 70 of the blocked loop)", "20–30× faster", "1280 → 450 ms",
        "7.0%, 3.0%, 6.7%",
    ]  # fmt: skip
    held = {verdict.text.partition(" (")[0]: verdict for verdict in verdicts}
    assert held["memory, pool ÷ greenlane"].measured == 4.0
    assert held["most requests a second with p95 in 500 ms, greenlane ÷ pool"].measured == 10.0
    assert held["p95, pool ÷ greenlane, at 2/s"].holds
    # Ours costs less than `compiled` in these figures.
    assert held["ranking path's CPU, greenlane ÷ compiled, at 2/s"].measured == pytest.approx(10 / 260)
    text = shown(result, rows, verdicts, steps)
    assert all(verdict.said() in text for verdict in verdicts)
    assert "the article's pool: pickle 7.0 %, executor 3.0 %, JSON 6.7 %" in text


def test_a_pool_that_keeps_no_rate_in_time_is_a_ratio_without_end() -> None:
    result = figures(260.0, 10.0, others=("pool",))
    result.alone["pool"]["most"]["max_per_s"] = 0.0
    assert math.isinf(next(one.measured for one in verdicts_of(result) if one.text.startswith("most requests")))
