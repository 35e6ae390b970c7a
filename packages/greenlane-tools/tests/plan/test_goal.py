"""What is wanted, in people's words; and what a profile carries of it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.plan.models import pricing

from greenlane.cli.main import main
from greenlane.errors import PlanError
from greenlane_tools.plan.advice import AdviceVerdict, advised
from greenlane_tools.plan.goal import Goal, enough, goals, level_said, needed, per_cent, seen, usual_goals
from greenlane_tools.plan.profile import Measured, Profile
from greenlane_tools.plan.settings import writable
from greenlane_tools.plan.sources import opened
from greenlane_tools.plan.words import answers
from tests.recordings import MS, START_NS, Cpu, GreenService, Request, S

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


# --- A goal stands as it was given: what was recorded comes first, then whether that is enough to plan for it.


SEEN_BIKES = "GET /bikes"


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """A recording of 134 requests in a minute, 20 of them in two bunches of ten: p99 684 ms."""
    steps = (Cpu(68_400_000),)
    alone = [Request("GET /price", START_NS + number * S // 2, steps) for number in range(114)]
    bunches = [Request("GET /price", START_NS + at * S + 250 * MS, steps) for at in (20, 40) for _ in range(10)]
    service = GreenService(0xA0, 4001)
    service.run(sorted([*alone, *bunches], key=lambda each: each.arrival_ns))
    path = tmp_path / "few.glr"
    path.write_bytes(service.chunk())
    return path


def test_a_missed_goal_of_few_requests_is_said_to_be_missed_and_nothing_else_judged(few: Path) -> None:
    profile = opened(str(few))
    assert profile.requests == 134
    advice = advised(profile, goals(["p99 <= 200ms"], profile), jobs=10_000)
    assert advice.verdict is AdviceVerdict.TOO_FEW
    assert advice.goals == (Goal("GET /price", 0.99, 200),) and advice.judged == ()
    (recorded,) = advice.seen
    assert recorded.latency_ms == pytest.approx(684, rel=0.02)
    assert recorded.missed and recorded.surely_missed and recorded.high_ms is None
    assert recorded.low_ms < 684 and recorded.within.at == pytest.approx(118 / 134, abs=0.02)


def test_it_is_printed_first_with_how_to_know_more(few: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(few), "--goal", "p99 <= 200ms", "--jobs", "10000"]) == 0
    whole = " ".join(capsys.readouterr().out.split())
    found, _, rest = whole.partition(" Recorded: GET /price p99 ")
    assert found.startswith("Recorded: GET /price waits ") and "The report's remedy: " in found
    first, *others = rest.split(". ")
    assert first.startswith("68") and first.endswith("the goal is missed")
    assert "to more than 68" in first and "134 requests within 200 ms" in first
    said = ". ".join(others)
    assert "Nothing is recommended for GET /price p99 <= 200 ms" in said
    assert "134 of GET /price were seen, it takes 1,000: record for 8 min at this load" in said
    assert "greenlane record --seconds 4" in said
    assert "They carry a goal of at most p92. On average one took 1" in said
    assert " CPU, " in said and " I/O, and " in said and " of waiting (`greenlane report`" in said
    assert "is met" not in said and "p50" not in said


def test_rows_have_what_was_recorded(few: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(few), "--goal", "p99 <= 200ms", "--json"]) == 0
    (row,) = (row for row in json.loads(capsys.readouterr().out)["rows"] if row["view"] == "recorded")
    assert (row["samples"], row["missed"], row["enough"], row["latency_high_ms"]) == (134, True, False, None)


def _measured(late: int, number: int = 2000, times: float = 0.1, late_ms: float = 900.0) -> Profile:
    """Low load, or another one, with latencies that are no consequence of it."""
    low = pricing(times)
    measured = {SEEN_BIKES: Measured.of([310.0] * (number - late) + [late_ms] * late)}
    routes = tuple(replace(route, requests=number) for route in low.routes)
    return replace(low, source="recording", routes=routes, measured=measured)


@pytest.mark.slow
def test_what_the_model_cannot_explain_is_said_and_nothing_recommended() -> None:
    profile = _measured(late=100)
    found = advised(profile, goals(["bikes p99 <= 400ms"], profile), jobs=10_000)
    assert found.verdict is AdviceVerdict.UNEXPLAINED
    met = advised(_measured(late=0), goals(["bikes p99 <= 400ms"], profile), jobs=10_000)
    assert met.verdict is AdviceVerdict.NOTHING


@pytest.mark.slow
def test_a_goal_that_was_met_is_not_planned_for_with_a_model_that_misses_it() -> None:
    profile = _measured(late=0, times=1.0)
    found = advised(profile, goals(["bikes p99 <= 400ms"], profile), jobs=10_000)
    assert found.verdict is AdviceVerdict.UNEXPLAINED and writable(found) is None
    assert "as recorded the goal is met, the simulation of the same set-up misses it" in " ".join(answers(found))
    # Missed, but by less than the model says: it is planned for, and the doubt stands before the predictions.
    late = _measured(late=1900, times=1.0, late_ms=450.0)
    said = answers(advised(late, goals(["bikes p99 <= 400ms"], late), jobs=10_000))
    assert said[1].startswith("Recorded: ") and said[2].startswith("Of what was recorded the simulation gives another")


def test_an_interval_is_as_wide_as_the_requests_are_few() -> None:
    goal = Goal(SEEN_BIKES, 0.99, 400)
    few, many = (seen(goal, _measured(late=number // 100, number=number)) for number in (1000, 100_000))
    assert few is not None and many is not None
    assert few.within.high - few.within.low > 5 * (many.within.high - many.within.low)
    assert not few.surely_missed
    assert seen(Goal("GET /quote/<int:id>", 0.99, 400), _measured(late=0)) is None


@pytest.mark.parametrize(("requests", "carried"), [(999, False), (1000, True)])
def test_a_percentile_takes_ten_requests_beyond_it(requests: int, carried: bool) -> None:
    profile = _measured(late=0, number=requests)
    goal = Goal(SEEN_BIKES, 0.99, 400)
    assert enough(goal, profile) is carried
    assert enough(goal, replace(profile, source="model"))
    assert f"{requests:,} of GET /bikes were seen, it takes 1,000" in needed([goal], profile)


def test_shares_are_said_as_people_tell_nines_apart() -> None:
    assert [per_cent(share) for share in (0.5, 0.995, 0.9999, 1.0)] == ["50.0 %", "99.50 %", "99.990 %", "100 %"]
