"""What-ifs change what they say and nothing else, and refuse what they cannot understand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenlane.errors import PlanError
from greenlane_tools.plan.options import cell_of
from greenlane_tools.plan.profile import Arrivals, Profile
from greenlane_tools.plan.route import Mean, Route, Sequence, Step
from greenlane_tools.plan.set_up import SetUp, SetUpLane, present
from greenlane_tools.plan.what_if import Change, applied, asked

SET_UP = SetUp("permits", 4, 4)


def steps(*each: tuple) -> tuple[Step, ...]:
    return tuple(Step(*one) for one in each)


BIKES = Route(
    "GET /v1/bikes/price", 20.0,
    (Sequence(
        3.0, steps(("cpu", 1), ("io", 100, 0), ("cpu", 1), ("io", 90, 1), ("cpu", 2), ("io", 110, 0), ("cpu", 1))
     ),
     Sequence(1.0, steps(("cpu", 4), ("io", 100, 0), ("cpu", 2)))),
    upstreams=("pricing", "zones"), deadline_ms=500.0,
)  # fmt: skip
QUOTE = Route(
    "GET /v1/quote/price",
    40.0,
    (Sequence(1.0, steps(("cpu", 10), ("free", 4))),),
    mean=Mean(cpu_ms=12, free_ms=4.4),
    threshold=0.5,
)
PROFILE = Profile(
    host="threads", arrivals=Arrivals(60.0), routes=(QUOTE, BIKES), seconds=100.0,
)  # fmt: skip


def one(**options: object) -> Change:
    (change,) = asked(PROFILE, **{name: [text] for name, text in options.items()})
    return change


def after(**options: object) -> tuple[Profile, SetUp]:
    return one(**options).apply(PROFILE, SET_UP)


def test_cpu_by_a_factor() -> None:
    halved, _ = after(cpu="quote=0.5x")
    assert halved.route(QUOTE.route).sequences[0].steps == steps(("cpu", 5.0), ("free", 2.0))
    assert halved.route(QUOTE.route).mean == Mean(cpu_ms=6, free_ms=2.2)
    assert halved.route(BIKES.route) == BIKES
    everywhere, _ = after(cpu="2x")
    assert [route.demand.cpu_ms for route in everywhere.routes] == pytest.approx(
        [2 * route.demand.cpu_ms for route in PROFILE.routes]
    )


def test_what_ran_without_the_gil_does_so_after_a_change() -> None:
    found = replace(PROFILE, host="gevent", routes=(replace(QUOTE, unlocked_frac=0.7), BIKES))
    for options in ({"cpu": ["quote=2x"]}, {"rate": ["2x"]}):
        changed, _ = applied(asked(found, **options), found, SET_UP)
        assert changed.route(QUOTE.route).unlocked_frac == 0.7


def test_unchanged_work_meets_the_very_same_arrivals() -> None:
    profile = replace(PROFILE, seconds=60.0, arrivals=replace(PROFILE.arrivals, dispersion=1.3))
    changes = asked(profile, cpu=["quote=1x", "bikes=1x"])
    changed, _ = applied(changes, profile, SET_UP)
    assert changed is not profile
    cells = [cell_of(each, present(profile), (), jobs=1, seed=1) for each in (profile, changed)]
    was, then = (json.loads(cell.profile)["arrivals"] for cell in cells)
    assert was == then
    assert was["dispersion"] == 1.0


def test_rate_of_all_and_of_one() -> None:
    twice, _ = after(rate="2x")
    assert (twice.arrivals.rate_per_s, [route.rate_per_s for route in twice.routes]) == (120, [80, 40])
    half, _ = after(rate="bikes=.5x")
    assert (half.arrivals.rate_per_s, half.route(BIKES.route).rate_per_s) == (50, 10)


def test_a_lane_apart_takes_its_routes_from_others() -> None:
    _, first = after(split="bikes")
    assert first.lanes == (SetUpLane("bikes", (BIKES.route,), "hard", 1),)
    laned = replace(SET_UP, lanes=(SetUpLane("fast", (BIKES.route,)),))
    (change,) = asked(PROFILE, split=["bikes=2"])
    _, moved = change.apply(PROFILE, laned)
    assert moved.lanes == (SetUpLane("bikes", (BIKES.route,), "hard", 2),)
    with pytest.raises(PlanError, match="not all"):
        asked(PROFILE, split=["bikes,quote"])


def test_several_at_once() -> None:
    changes = asked(PROFILE, cpu=["quote=0.5x"], rate=["2x"])
    profile, _ = applied(changes, PROFILE, SET_UP)
    assert profile.arrivals.rate_per_s == 120
    assert len(profile.notes) == 2 and all(change.said in " ".join(profile.notes) for change in changes)
    assert profile.measured == {} and profile.seconds == 0
    assert (PROFILE.arrivals.rate_per_s, PROFILE.notes) == (60, ())


@pytest.mark.parametrize(
    ("option", "text", "says"),
    [
        ("cpu", "quote=half", "such as 0.5x"),
        ("cpu", "qoute=2x", "did you mean"),
        ("cpu", "price=2x", "write the whole name"),
        ("cpu", "quote=-1x", "such as 0.5x"),
        ("rate", "2ms", "how many times as much"),
        ("rate", "", "how many times as much"),
        ("split", "cars", "a route of the profile"),
        ("split", "bikes=0", "a whole number"),
    ],
)
def test_what_is_not_understood_names_option_text_and_rule(option: str, text: str, says: str) -> None:
    with pytest.raises(PlanError) as raised:
        one(**{option: text})
    message = str(raised.value)
    assert says in message
    assert message.startswith(f"read a what-if: --{option}=") and "expected" in message


def test_a_changed_profile_is_a_profile() -> None:
    for options in ({"cpu": "quote=0.5x"}, {"rate": "2x"}, {"cpu": "quote=0x"}):
        changed, _ = after(**options)
        assert Profile.from_json(changed.to_json()) == changed, options


@given(text=st.text(max_size=20), option=st.sampled_from(["cpu", "rate", "split"]))
def test_any_text_is_a_change_or_a_plan_error(text: str, option: str) -> None:
    try:
        after(**{option: text})
    except PlanError:
        pass
