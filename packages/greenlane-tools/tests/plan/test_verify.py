"""The proof in the lab: the twin does what the profile says, and set-ups become contenders."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.plan.models import pricing

from greenlane.errors import PlanError
from greenlane_tools.plan.band import Band
from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.set_up import SetUp, SetUpLane
from greenlane_tools.plan.verify.compared import Compared
from greenlane_tools.plan.verify.played import Played
from greenlane_tools.plan.verify.proof import contender_of
from greenlane_tools.plan.verify.scenarios import application_of, classes_of, matched, named, twin

BIKES = "GET /bikes"


def test_a_request_plays_a_sequence_of_its_route_and_the_same_for_everybody() -> None:
    steps = [{"weight": 3.0, "steps": [["cpu", 0.0]]}, {"weight": 1.0, "steps": [["cpu", 0.0]]}]
    one, other = (Played([{"sequences": steps}], 1.0, 0.0) for _ in range(2))
    words = [f"{number / 1000}" for number in range(4000)]
    found = [one.play(0, word) for word in words]
    assert found == [other.play(0, word) for word in words]
    assert 0.22 < sum(found) / len(found) < 0.28


def test_the_twin_asks_each_route_at_its_rate(tmp_path: Path) -> None:
    made = twin(pricing(), {BIKES: 400.0}, tmp_path, seconds=20, repetitions=2)
    names = classes_of(pricing())
    by_name = {one.name: one for one in made.classes}
    assert by_name[names[BIKES]].rate_per_s == 30
    assert by_name[names[BIKES]].deadline_ms == 400
    played = json.loads((tmp_path / "sequences.json").read_text("utf-8"))
    at = [route["route"] for route in played].index(BIKES)
    assert by_name[names[BIKES]].path == f"/{at}"
    assert [kind for kind, _ in played[at]["sequences"][0]["steps"]] == ["cpu", "io"] * 3
    assert (tmp_path / "played.py").exists()


def test_a_scenario_of_the_lab_takes_the_profiles_rates() -> None:
    profile = replace(pricing(), routes=tuple(replace(r, route=r.route.partition("/<")[0]) for r in pricing().routes))
    found = named("pricing", profile, {BIKES: 400.0}, seconds=20, repetitions=2)
    assert {one.path: (one.rate_per_s, one.cpu_share_frac) for one in found.classes} == {
        "/bikes": (30, 0),
        "/quote": (48, 0),
    }
    assert not found.calibrates()
    assert application_of(found) == "pricing:app"
    with pytest.raises(PlanError, match="--verify='pricing', expected a scenario that asks GET /quote/<int:id> too"):
        named("pricing", pricing(), {}, seconds=20, repetitions=2)


@pytest.mark.parametrize(
    ("route", "path"),
    [
        ("GET /bikes", "/bikes"),
        ("GET /quote/<int:id>/lines", "/quote/7/lines"),
        ("GET /^(?P<path>.+/|)_history/$", "/page7/_history/"),
        ("GET /^(?P<path>.+/|)$", "/page7/"),
    ],
)
def test_a_scenarios_class_is_the_route_whose_rule_its_path_meets(route: str, path: str, tmp_path: Path) -> None:
    rules = ["GET /bikes", "GET /quote/<int:id>/lines", "GET /^(?P<path>.+/|)$", "GET /^(?P<path>.+/|)_history/$"]
    profile = replace(pricing(), routes=tuple(replace(pricing().routes[0], route=rule) for rule in rules))
    scenario = twin(pricing(), {}, tmp_path, seconds=20, repetitions=1)
    asks = replace(scenario.classes[0], name="one", path=path)
    assert matched(replace(scenario, classes=(asks,)), profile) == {route: "one"}


def test_set_ups_are_started_as_they_say() -> None:
    classes = {BIKES: "r1"}
    gevent = contender_of("now", SetUp("gevent", 2, 2, limit=12), classes, "played:app", None)
    assert gevent.arguments == (
        "--worker-class", "gevent", "--workers", "2", "--worker-connections", "12", "--keep-alive", "0",
    )  # fmt: skip
    plenty = contender_of("now", SetUp("gevent", 1, 2), classes, "played:app", None)
    assert "--keep-alive" not in plenty.arguments
    lane = SetUpLane("apart", (BIKES,), "hard", processes=1)
    apart = contender_of("then", SetUp("threads", 2, 2, limit=64, lanes=(lane,)), classes, "played:app", None)
    assert (apart.apart, apart.arguments[:4]) == (("r1",), ("--worker-class", "gthread", "--workers", "1"))
    served = contender_of("then", SetUp("permits", 2, 2, queue="central"), classes, "played:app", Path("/x/then.toml"))
    assert served.command[-2:] == ("--config", "/x/then.toml")


@pytest.mark.parametrize("set_up", [SetUp("celery", 1, 1), SetUp("asyncio", 1, 1)])
def test_what_the_lab_cannot_serve_is_said(set_up: SetUp) -> None:
    with pytest.raises(PlanError, match="verify the plan in the lab: host="):
        contender_of("then", set_up, {}, "played:app", None)


def test_a_measurement_is_in_its_band_or_not() -> None:
    band = Band(Goal(BIKES, 0.99, 400), 300, 400, 0.98, 1.0)
    assert Compared("now", band, 350, 0.99, 2000).inside is True
    assert Compared("now", band, 420, 0.97, 2000).inside is False
    assert Compared("now", band, None, 0.97, 200).inside is None
