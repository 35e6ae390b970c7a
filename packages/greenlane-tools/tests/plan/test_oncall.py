"""The questions of docs/oncall.md that the plan answers: each asked of a service that has just that trouble."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from greenlane.cli.main import main
from greenlane_tools.plan import slots
from greenlane_tools.plan.band import Band
from greenlane_tools.plan.candidates import Room, candidates, hanging
from greenlane_tools.plan.goal import Goal, goals
from greenlane_tools.plan.options import CellRuns
from greenlane_tools.plan.set_up import present
from greenlane_tools.plan.sources import opened
from greenlane_tools.plan.verify.compared import Compared, table_of

pytestmark = pytest.mark.slow

MODELS = Path(__file__).resolve().parent.parent / "oncall" / "models"
PRICING, NEXT, ORDERS = (str(MODELS / f"{name}.toml") for name in ("pricing", "pricing-next", "orders"))
LOOP = str(MODELS / "pricing-loop.toml")
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


def test_7_what_helps_stands_in_the_first_sentence(ask: Ask) -> None:
    rows = ask(PRICING, *_BIKES)
    assert rows[0]["recommended"].startswith("permits")
    assert not any(" limit " in row["contender"] for row in _view(rows, "option"))


def test_8_a_recommendation_never_limits_connections(ask: Ask) -> None:
    (settings,) = _view(ask(PRICING, *_BIKES), "settings")
    assert "connections" not in settings["command"] + settings["toml"]


def test_10_processes_of_their_own_help_and_it_is_said_how_much(ask: Ask) -> None:
    p99_ms = {
        split: next(
            row["p99_ms"]
            for row in _view(ask(PRICING, *_BIKES, *split), "route")
            if (row["contender"], row["endpoint"]) == ("present", "GET /bikes")
        )
        for split in ((), ("--split", "bikes"))
    }
    assert p99_ms["--split", "bikes"] < 330 < p99_ms[()]


def test_15_a_release_moves_the_cliff_of_all_routes(ask: Ask) -> None:
    rows = ask("diff", PRICING, NEXT)
    quote = next(
        row for row in _view(rows, "difference") if (row["endpoint"], row["measure"]) == ("GET /quote", "cpu_ms")
    )
    assert quote["changed"] and quote["ratio"] == pytest.approx(1.25, rel=0.01)
    assert rows[0]["said"][0] == "The cliff is nearer: the service was full at 1.2× the load before, now at 1.0×."


def test_16_the_cliff_is_a_factor_of_the_load(ask: Ask) -> None:
    rows = ask(PRICING, *_BIKES)
    breaks = {row["contender"]: row["breaks_at_load"] for row in _view(rows, "option")}
    assert breaks["present"] < 1 < breaks["permits x1"] < 1.17  # full at 1 / 0.86
    assert any(2 < each < 2.34 for each in breaks.values() if each)  # in two processes
    assert any(text.startswith("The goal breaks: recommended, at 1.1") for text in rows[0]["said"])


def test_16_at_twice_the_load_it_says_what_is_enough(ask: Ask) -> None:
    rows = ask(PRICING, *_BIKES, "--rate", "2x")
    standing = {row["contender"]: row["standing"] for row in _view(rows, "option")}
    assert standing["present"] == "missed" and standing[rows[0]["recommended"]] == "met"
    assert rows[0]["set_up"]["processes"] == 2


def test_19_with_a_bulkhead_the_others_go_on(ask: Ask) -> None:
    rows = ask(ORDERS, "--goal", "p99 <= 60s", "--jobs", "10000")
    assert rows[0]["recommended"].startswith("bulkhead")
    assert "all orders stop for a while when the upstream that is called most hangs" in " ".join(rows[0]["said"])
    assert rows[0]["set_up"]["upstream_limits"].keys() == {"taco", "sushi"}


def test_19_slots_alone_do_not_keep_the_others_going_and_some_bulkhead_does() -> None:
    profile = opened(ORDERS)
    found = hanging(profile)
    assert found is not None
    hung, spared = found
    assert spared == ("send sushi",)
    runs = CellRuns(profile, goals(["p99 <= 60s"], profile), jobs=10_000)
    tried = candidates(profile, runs.goals, present(profile), Room(1, 3))
    cells = runs.cells([(one.set_up, hung, 1.0) for one in tried], "")
    kept = {one.name for one, run in zip(tried, cells, strict=True) if run.only(spared).goals_reached}
    assert any(one.name.startswith("slots ") for one in tried)
    assert kept
    assert all(name.startswith("bulkhead") for name in kept)


def test_20_slots_follow_littles_law(ask: Ask) -> None:
    rows = ask(ORDERS, "--goal", "p99 <= 60s", "--jobs", "10000")
    busy = 0.125 * 28.04
    assert f"{busy:.3g} busy on average" in " ".join(rows[0]["said"])
    rows = ask(ORDERS, "--goal", "p99 <= 60s", "--jobs", "10000", "--rate", "13.3x")
    assert f"{13.3 * busy:.3g} busy on average" in " ".join(rows[0]["said"])
    # With some tens of slots what is needed is within a tenth of that: 6,000 orders an hour of 28 s each.
    many = slots.slots(6000 / 3600, 28_000)
    assert many.busy == pytest.approx(46.7, rel=0.01)
    assert many.needed <= 1.10 * many.busy


def test_21_heavy_work_beside_a_loop_is_placed(ask: Ask) -> None:
    rows = ask(LOOP, *_BIKES)
    assert rows[0]["recommended"].startswith("placed-")
    assert rows[0]["set_up"]["placement"] == {"GET /quote": rows[0]["recommended"].split("-")[1].rstrip("0123456789 x")}


def test_23_a_split_is_planned_with_processes_of_its_own(ask: Ask) -> None:
    rows = ask(PRICING, *_BIKES, "--split", "bikes")
    present = next(row for row in _view(rows, "option") if row["contender"] == "present")
    assert present["cores"] == 2 and present["standing"] == "met"


def test_28_overloaded_it_says_what_these_cores_can_do(ask: Ask) -> None:
    rows = ask(PRICING, *_BIKES, "--rate", "1.4x")
    present = next(row for row in _view(rows, "option") if row["contender"] == "present")
    assert not present["settled"] or present["standing"] == "missed"
    assert rows[0]["verdict"] == "change"
    assert rows[0]["set_up"]["processes"] == 2
    said = " ".join(rows[0]["said"])
    assert "the planned load" in said and "with the what-if alone: never settles" in said


def test_29_a_measurement_outside_of_its_band_is_said_to_be() -> None:
    band = Band(Goal("GET /bikes", 0.99, 400), 300, 340, 0.99, 1.0)
    (row,) = table_of([Compared("recommended", band, 600, 0.95, 5000)])
    assert (row["predicted"], row["measured"], row["is"]) == ("300 ms to 340 ms", "600 ms", "out")
