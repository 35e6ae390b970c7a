"""What is wanted, in people's words; and what a profile carries of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.plan.models import pricing

from greenlane.errors import PlanError
from greenlane_tools.plan.goal import Goal, goals, level_said, usual_goals

PROFILE = pricing()
BIKES, QUOTE = "GET /bikes", "GET /quote/<int:id>"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("bikes p99.9 <= 500ms", [Goal(BIKES, 0.999, 500)]),
        ("GET /bikes p99 < 0.5 s", [Goal(BIKES, 0.99, 500)]),
        ("bikes p999 ≤ 500ms", [Goal(BIKES, 0.999, 500)]),
        ("bikes 99.95 % within 1s", [Goal(BIKES, 0.9995, 1000)]),
        ("quote 95% within 200 ms; bikes p50 <= 1min", [Goal(QUOTE, 0.95, 200), Goal(BIKES, 0.5, 60_000)]),
        ("p99 <= 1s", [Goal(QUOTE, 0.99, 1000), Goal(BIKES, 0.99, 1000)]),
        ("* p99 <= 1s", [Goal(QUOTE, 0.99, 1000), Goal(BIKES, 0.99, 1000)]),
        ("bikes p99 <= 500ms; bikes p99.9 <= 500ms", [Goal(BIKES, 0.999, 500)]),
    ],
)
def test_a_goal_is_read_as_it_is_said(text: str, expected: list[Goal]) -> None:
    assert list(goals([text], PROFILE)) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("bikes", "expected ROUTE p99.9 <= 500ms"),
        ("bikes mean <= 5ms", "hint: a mean hides the slow requests"),
        ("bikes p99 >= 500ms", "hint: write bikes p99 <= 500ms"),
        ("bikes p99 <= 500", "expected a time with its unit at the end"),
        ("bikes p99 <= 0ms", "expected a time above 0"),
        ("bikes p100 <= 5ms", "expected a percentile above 0 and below 100"),
        ("bike p99 <= 5ms", "expected a route of the profile: GET /quote/<int:id>, GET /bikes"),
        ("get p99 <= 5ms", "expected one route; get is in GET /quote/<int:id>, GET /bikes"),
        ("bikes 99 % in time", "expected a route with a deadline; the profile knows none of GET /bikes"),
    ],
)
def test_a_wrong_goal_is_refused_with_what_may_be_written(text: str, said: str) -> None:
    with pytest.raises(PlanError) as caught:
        goals([text], PROFILE)
    assert str(caught.value).startswith(f"read the goal: --goal={text!r}, expected ")
    assert said in str(caught.value)
    assert caught.value.exit_code == 2


def test_in_time_is_the_routes_own_deadline() -> None:
    due = replace(PROFILE, routes=tuple(replace(route, deadline_ms=250.0) for route in PROFILE.routes))
    assert goals(["bikes 99.9 % in time"], due) == (Goal(BIKES, 0.999, 250),)
    assert usual_goals(due)[0] == (Goal(QUOTE, 0.99, 250), Goal(BIKES, 0.99, 250))


def test_without_a_goal_requests_may_take_twice_their_own_time() -> None:
    taken, said = usual_goals(PROFILE)
    assert {goal.route: goal.limit_ms for goal in taken}[BIKES] == 610  # 303 ms alone
    assert "No goal was given" in said


def test_percentiles_are_said_as_people_write_them() -> None:
    assert [level_said(share) for share in (0.5, 0.95, 0.999, 0.9995)] == ["p50", "p95", "p99.9", "p99.95"]
