"""The questions of docs/oncall.md that the plan answers: each asked of a service that has just that trouble."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from greenlane.cli.main import main
from greenlane_tools.plan import slots
from greenlane_tools.plan.candidates import Room, candidates
from greenlane_tools.plan.goal import goals
from greenlane_tools.plan.options import CellRuns, Option, cell_of
from greenlane_tools.plan.sensitivity import HANG, wrongs
from greenlane_tools.plan.set_up import present
from greenlane_tools.plan.simulation import simulate_cells
from greenlane_tools.plan.sources import opened
from greenlane_tools.plan.verify.compared import Compared

pytestmark = pytest.mark.slow

MODELS = Path(__file__).resolve().parent.parent / "oncall" / "models"
PRICING, NEXT, ORDERS = (str(MODELS / f"{name}.toml") for name in ("pricing", "pricing-next", "orders"))
_BIKES = ("--goal", "bikes p99 <= 400ms", "--jobs", "10000")

Ask = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def answered() -> dict[tuple[str, ...], str]:
    """What was printed for which arguments: the same question is asked once."""
    return {}


@pytest.fixture
def ask(answered: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str]) -> Ask:
    """Rows of `greenlane plan … --json`."""

    def plan(*argv: str) -> list[dict[str, Any]]:
        if argv not in answered:
            assert main(["plan", *argv, "--json"]) == 0
            answered[argv] = capsys.readouterr().out
        rows: list[dict[str, Any]] = json.loads(answered[argv])["rows"]
        return rows

    return plan


def _view(rows: list[dict[str, Any]], view: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["view"] == view]


def test_7_what_a_limit_on_one_process_wins_others_pay_and_what_helps_is_said(ask: Ask) -> None:
    rows = ask(PRICING, *_BIKES)
    by_name = {row["contender"]: row for row in _view(rows, "option")}
    limited = [row for name, row in by_name.items() if name.startswith("gevent x1 limit")]
    assert limited
    assert all(row["standing"] == "missed" for row in limited)
    assert rows[0]["recommended"].startswith("permits")
    *_, no_help, here = _view(rows, "stock")[0]["warnings"]
    assert no_help.startswith("A limit without shedding makes no process faster")
    number = next(word for word in here.split() if word.isdecimal())
    assert here.startswith(f"Here, p99 on gevent with {number} places instead of 1,000: GET /bikes ")
    assert "; GET /quote " in here
    profile = opened(PRICING)
    base = present(profile)
    limited, plain = simulate_cells(
        [cell_of(profile, replace(base, limit=limit), (), jobs=200_000, seed=1) for limit in (int(number), base.limit)]
    )
    assert limited.route("GET /bikes").percentile_ms(0.99) < plain.route("GET /bikes").percentile_ms(0.99)
    assert limited.route("GET /quote").percentile_ms(0.99) > plain.route("GET /quote").percentile_ms(0.99)


def test_8_a_limit_comes_with_keep_alive_0_and_the_reason(ask: Ask) -> None:
    from greenlane_tools.plan.set_up import SetUp
    from greenlane_tools.plan.settings import KEEP_ALIVE, _commands

    limited = SetUp("gevent", 2, 2, limit=12)
    assert list(_commands(limited)) == [
        "gunicorn -k gevent --workers 2 --worker-connections 12 --keep-alive 0 module:app"
    ]
    assert list(_commands(replace(limited, limit=1000))) == ["gunicorn -k gevent --workers 2 module:app"]
    assert "counts connections, not requests" in KEEP_ALIVE


def test_10_processes_of_their_own_help_and_it_is_said_how_much(ask: Ask) -> None:
    rows = ask(PRICING, *_BIKES, "--split", "bikes")
    then = {row["endpoint"]: row for row in _view(rows, "what_if")}
    assert then["GET /bikes"]["p99_ms"] < 330 < then["GET /bikes"]["before_p99_ms"]


def test_15_a_release_costs_headroom_of_all_routes(ask: Ask) -> None:
    found = _view(ask("diff", PRICING, NEXT), "difference")
    rows = {(row["endpoint"], row["measure"]): row for row in found}
    quote, bikes = rows["GET /quote", "cpu_ms"], rows["GET /bikes", "headroom"]
    assert quote["changed"] and quote["ratio"] == pytest.approx(1.25, rel=0.01)
    assert bikes["changed"] and bikes["ratio"] < 0.5


def test_16_the_cliff_is_a_factor_of_the_load(ask: Ask) -> None:
    rows = ask(PRICING, *_BIKES)
    breaks = {row["contender"]: row["breaks_at_load"] for row in _view(rows, "option")}
    assert breaks["present"] < 1 < breaks["permits x1"] < 1.17  # full at 1 / 0.86
    assert 2 < breaks[rows[0]["recommended"]] < 2.34  # in two processes
    assert any(text.startswith("The goal breaks: recommended, at 2.") for text in rows[0]["said"])


def test_19_with_a_bulkhead_the_others_go_on(ask: Ask) -> None:
    rows = ask(ORDERS, "--goal", "p99 <= 60s", "--jobs", "10000")
    chosen = rows[0]["recommended"]
    assert chosen.startswith("bulkhead")
    hangs = {row["contender"]: row for row in _view(rows, "wrong") if row["name"] == "hang"}
    assert {row["endpoint"] for row in hangs.values()} == {"send sushi"}
    assert hangs[chosen]["within_frac"] >= 0.99 > hangs["present"]["within_frac"]
    holds = next(text for text in rows[0]["said"] if text.startswith("It still holds if"))
    assert "taco hangs" in holds
    assert "the others' orders go on, send sushi p99" in holds
    assert rows[0]["set_up"]["upstream_limits"].keys() == {"taco", "sushi"}


def test_19_slots_alone_do_not_keep_the_others_going_and_some_bulkhead_does() -> None:
    profile = opened(ORDERS)
    runs = CellRuns(profile, goals(["p99 <= 60s"], profile), jobs=10_000)
    tried = candidates(profile, runs.goals, present(profile), Room(1, 3))
    found = runs.at(tried, "", quick=True)
    options = [Option(candidate, at, 1.0) for candidate, at in zip(tried, found, strict=True)]
    (hang,) = (wrong for wrong in wrongs(runs, options) if wrong.name == HANG)
    kept = {name for name in hang.options if hang.reached(name)}
    assert any(name.startswith("slots ") for name in hang.options)
    assert kept
    assert all(name.startswith("bulkhead") for name in kept)


def test_20_slots_follow_littles_law(ask: Ask) -> None:
    rows = ask(ORDERS, "--goal", "p99 <= 60s", "--jobs", "10000")
    busy = 0.125 * 28.04
    assert f"{busy:.3g} busy on average" in " ".join(rows[0]["said"])
    # With some tens of slots what is needed is within a tenth of that: 6,000 orders an hour of 28 s each.
    many = slots.slots(6000 / 3600, 28_000)
    assert many.busy == pytest.approx(46.7, rel=0.01)
    assert many.needed <= 1.10 * many.busy


def _ways(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {row["way"]: row for row in rows if "way" in row}


def test_21_where_work_should_run_with_your_own_numbers(ask: Ask) -> None:
    case = "--rate 2 --cpu 265 --heavy 250 --io 120 --waits 3 --mb 4 --result-mb 0.1 --cores 8 --workers 3"
    rows = ask("decide", *case.split())
    assert [way for way, row in _ways(rows).items() if row["best"]] in (["shared memory"], ["native"])
    assert rows[-1]["rule"] == "rewrite it in Go"
    assert any("nothing needs to be rewritten" in sentence for sentence in rows[-1]["wrong"])


def test_23_what_a_split_would_send_and_cost(ask: Ask) -> None:
    case = "--rate 3333 --cpu 265 --heavy 250 --io 60 --waits 3 --mb 4 --result-mb 0.1 --machines 1000 --processes 4"
    split = _ways(ask("decide", *case.split(), "--link", "0.1"))["split"]
    assert split["gbit_per_s"] == pytest.approx(3333 * 4.1 * 8 / 1000, rel=0.01)
    assert "do not go through" in split["why_not"]
    assert split["moving_ms"] > 50


def test_28_overloaded_it_says_what_these_cores_can_do(ask: Ask) -> None:
    rows = ask(PRICING, *_BIKES, "--rate", "1.4x")
    present = next(row for row in _view(rows, "option") if row["contender"] == "present")
    assert not present["settled"] or present["standing"] == "missed"
    assert rows[0]["verdict"] == "change"
    assert rows[0]["set_up"]["processes"] == 2
    said = " ".join(rows[0]["said"])
    assert "the planned load (" in said and "with the what-if alone: never settles" in said


def test_29_a_prediction_that_misses_is_listed() -> None:
    found = Compared("recommended", "GET /bikes", 400, 0.999, 0.95, 0.94, 0.96, 305, 306, 320, 600, 5000)
    assert found.misses == ("in time 99.90% predicted, 95.00% measured", "p99 320 ms predicted, 600 ms measured")
