"""The advice: what it recommends, when it recommends nothing, and what it says of it."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from tests.plan.models import ORDERS, model, pricing

from greenlane_tools.plan import settings, words
from greenlane_tools.plan.advice import EDGE_TIMES, Advice, AdviceVerdict, _Choice, _chosen, advised
from greenlane_tools.plan.candidates import Room, candidates
from greenlane_tools.plan.goal import goals
from greenlane_tools.plan.options import Candidate, CellRuns, Option, Predicted
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.set_up import SetUp, present
from greenlane_tools.report.remedies import Remedy
from greenlane_tools.report.verdict import Verdict
from greenlane_work.settings import WorkSettings

pytestmark = pytest.mark.slow

_JOBS = 10_000


def _advised(profile: Profile, *texts: str, **more: object) -> Advice:
    return advised(profile, goals(texts, profile), jobs=_JOBS, **more)  # type: ignore[arg-type]


def _plain(settings: str) -> str:
    """Comments on one line."""
    return " ".join(settings.replace("#", " ").split())


def _roomy() -> Profile:
    """A load at which one process with permits is not at the edge."""
    return pricing(times=0.94)


@pytest.fixture(scope="module")
def found() -> Advice:
    """For a stock gevent worker whose light requests come late."""
    return _advised(_roomy(), "bikes p99 <= 400ms")


def test_light_requests_behind_heavy_ones_get_permits_or_a_lane_at_no_more_cores(found: Advice) -> None:
    assert found.verdict is AdviceVerdict.CHANGE
    assert found.present is not None and found.recommended is not None
    assert not found.present.at.reached
    assert found.recommended.at.reached
    assert found.recommended.set_up.host == "permits"
    assert found.recommended.cost == 1


def test_what_the_recording_found_comes_first_with_how_the_plan_stands_to_it(found: Advice) -> None:
    remedy = Remedy("take_turns", "Shorten it", "Look again.")
    recorded = Verdict("loop", "/a waits for the loop.", remedy, cost_ns=1.0)
    first, second, *others = words.answers(replace(found, recorded=recorded))
    assert (first, others) == ("Recorded: /a waits for the loop.", words.answers(found))
    assert second == "The report's remedy: Shorten it. The plan changes how it is served, and not that code:"
    _, second, *_ = words.answers(replace(found, recorded=replace(recorded, kind="connection_pool")))
    assert "The simulation knows nothing of that" in second
    first, second, *_ = words.answers(replace(found, recorded=replace(recorded, kind="none", cost_ns=0.0)))
    assert "The report's remedy" not in second


def test_the_goal_breaks_later_than_now_and_before_the_process_is_full(found: Advice) -> None:
    assert found.recommended is not None and found.present is not None
    assert found.recommended.breaks is not None
    assert found.present.breaks is not None
    assert found.present.breaks < 1 < found.recommended.breaks
    assert [run.load for run in found.recommended.curve] == sorted(run.load for run in found.recommended.curve)


def test_the_words_name_what_to_set_what_comes_of_it_and_the_cliff(found: Advice) -> None:
    said = " ".join(words.answers(found))
    for part in (
        "Serve it with",
        "CPU permits",
        "GET /bikes: p99",
        " to ",
        "within 400 ms; now: p99",
        "The goal breaks:",
    ):
        assert part in said
    assert len(words.table_of(found)) == 5
    assert len(words.table_of(found, everything=True)) == len(found.options) > 5
    assert {"advice", "option", "route"} == {str(row["view"]) for row in words.rows_of(found)}


def test_predictions_are_bands_that_hold_what_was_simulated_at_length(found: Advice) -> None:
    assert found.present is not None and found.recommended is not None
    for option in (found.present, found.recommended):
        (judged,) = option.at.goals
        band = found.band(option, judged.goal)
        assert band is not None
        assert band.low_ms < judged.latency_ms < band.high_ms
        assert band.low_within <= judged.within <= band.high_within


def test_the_same_again_gives_the_same(found: Advice) -> None:
    assert words.rows_of(_advised(_roomy(), "bikes p99 <= 400ms")) == words.rows_of(found)


def test_the_settings_are_those_of_the_settings_own_loader(found: Advice) -> None:
    option = settings.writable(found)
    assert option is not None
    text = settings.settings_of(found, option)
    assert settings.checked(text).mode == "on"
    assert settings.command_of(option).startswith("gunicorn -k greenlane.hosts.gunicorn.Worker --workers 1")
    assert "GET /bikes" in text


def test_a_stock_server_has_a_command_and_no_settings(found: Advice) -> None:
    stock = next(option for option in found.options if option.candidate.stock)
    assert settings.settings_of(found, stock) == ""
    assert settings.command_of(stock).startswith("gunicorn -k g")


def test_settings_of_what_refuses_early_name_the_deadlines_that_requests_must_bring(found: Advice) -> None:
    assert found.recommended is not None
    assert "deadlines" not in settings.settings_of(found, found.recommended)
    candidate = found.recommended.candidate
    sheds = replace(found.recommended, candidate=replace(candidate, set_up=replace(candidate.set_up, shed=True)))
    due = tuple(replace(route, deadline_ms=500.0) for route in found.profile.routes)
    text = settings.settings_of(replace(found, profile=replace(found.profile, routes=due)), sheds)
    assert "GET /bikes 500 ms" in _plain(text)
    assert "x-envoy-expected-rq-timeout-ms" in text


def test_a_goal_that_breaks_at_each_load_or_at_none_is_said_to(found: Advice) -> None:
    chosen = found.recommended
    assert chosen is not None
    lowest = min(run.load for run in chosen.curve)
    nothing = replace(found, verdict=AdviceVerdict.NOTHING)

    def said(holds: float, breaks: float) -> list[str]:
        option = replace(chosen, holds=holds, breaks=breaks)
        return words.answers(replace(nothing, present=option, recommended=option))

    at_each = f"{lowest:.2f}× today's load"
    assert said(0.0, lowest)[0].endswith(f"as it is served now, but not at {at_each}, the lowest that was looked at.")
    assert f"The goal breaks: recommended, at {at_each} already, the lowest that was looked at." in said(0.0, lowest)
    assert words.breaks_said(found, replace(chosen, holds=0.0, breaks=lowest)) == f"≤ {at_each}"
    assert said(math.inf, math.inf)[0].endswith("as it is served now, at every load that was looked at.")
    assert "The goal breaks: recommended, at no load that was looked at." in said(math.inf, math.inf)


def test_with_a_what_if_the_present_option_is_not_now_and_the_load_is_the_planned_one(found: Advice) -> None:
    changed = replace(found, what_if=True)
    said = " ".join(words.answers(changed))
    assert "with the what-if alone: p99" in said and ". And with the what-if alone, at " in said
    assert "the planned load" in said and "today" not in said and "; now: " not in said
    rows = {row["way"]: row["what it is"] for row in words.table_of(changed, everything=True)}
    assert rows["present"] == "what it has, with the what-if alone"


def test_at_low_load_nothing_is_to_be_changed_and_it_is_said_why() -> None:
    low = _advised(pricing(times=0.1), "bikes p99 <= 400ms")
    assert low.verdict is AdviceVerdict.NOTHING
    assert low.recommended == low.present
    assert settings.writable(low) is None
    first, why, *_ = words.answers(low)
    assert first.startswith("Change nothing")
    assert "Its processes compute 8" in why


def test_what_the_requests_own_work_takes_no_set_up_can_change() -> None:
    never = _advised(pricing(), "bikes p99 <= 250ms")
    assert never.verdict is AdviceVerdict.IMPOSSIBLE
    assert never.recommended is None
    assert "no set-up changes that" in " ".join(words.answers(never))


def test_more_than_all_cores_can_do_is_out_of_reach() -> None:
    busy = _advised(pricing(times=3.0), "bikes p99 <= 400ms")
    assert busy.verdict is AdviceVerdict.OUT_OF_REACH
    assert "The work needs 3 cores at least, 2 may be used" in " ".join(words.answers(busy))
    enough = _advised(pricing(times=3.0), "bikes p99 <= 400ms", cores=4)
    assert enough.verdict is AdviceVerdict.CHANGE
    assert enough.recommended is not None
    assert enough.recommended.set_up.processes in (3, 4)


@dataclass(frozen=True)
class _Otherwise(CellRuns):
    """Runs that meet another load than they are asked for: as if chance had been kind to them, or unkind."""

    long_times: float = 1.0

    def cells(self, cells: Sequence[tuple[SetUp, Profile, float]], said: str, *, quick: bool = True) -> list[Predicted]:
        times = 1.0 if quick else self.long_times
        found = super().cells([(set_up, profile, load * times) for set_up, profile, load in cells], said, quick=quick)
        return [replace(run, load=load) for run, (_, _, load) in zip(found, cells, strict=True)]


def _choice(profile: Profile, **times: float) -> Advice:
    wanted = goals(["bikes p99 <= 400ms"], profile)
    tried = candidates(profile, wanted, present(profile), Room(2, 2))
    asked = Advice(profile, wanted, AdviceVerdict.TOO_FEW, wanted)
    return _Choice(_Otherwise(profile, wanted, jobs=_JOBS, **times), asked).made(tried)


def test_what_only_a_short_run_meets_is_not_recommended() -> None:
    lucky = _choice(_roomy())
    assert lucky.recommended is not None and lucky.recommended.cost == 1
    sure = _choice(_roomy(), long_times=1.25)
    assert sure.verdict is AdviceVerdict.CHANGE
    assert sure.recommended is not None and sure.recommended.at.reached and sure.recommended.cost == 2
    assert not next(one for one in sure.options if one.candidate == lucky.recommended.candidate).at.reached


def test_what_may_be_no_better_is_not_recommended() -> None:
    """Threads are within the model's error of permits here."""
    threads = replace(pricing(times=0.3), host="threads", slots=64)
    unsure = _advised(threads, "bikes p99 <= 330ms")
    assert unsure.verdict is AdviceVerdict.UNSURE
    assert settings.writable(unsure) is None
    assert words.answers(unsure)[0].startswith("Not sure: GET /bikes p99 <= 330 ms is missed as it is served now")
    assert " (perhaps)" in str(words.table_of(unsure)) and "recommended" not in str(words.table_of(unsure))


def test_where_the_goal_breaks_runs_at_length_agree_with_what_is_printed(found: Advice) -> None:
    chosen = found.recommended
    assert chosen is not None and chosen.holds and chosen.breaks
    runs = CellRuns(found.profile, found.goals, jobs=_JOBS)
    # It is found to 2 %.
    cells = [(chosen.set_up, found.profile, load) for load in (chosen.holds / 1.02, chosen.breaks * 1.02)]
    holds, breaks = runs.cells(cells, "", quick=False)
    assert holds.reached and not breaks.reached
    assert f"recommended, at {chosen.breaks:.2f}× today's load (" in " ".join(words.answers(found))


def test_what_is_at_the_edge_is_left_for_what_lasts() -> None:
    edge = _advised(pricing(times=1.07), "bikes p99 <= 400ms")
    chosen = edge.recommended
    assert chosen is not None and (chosen.cost, chosen.set_up.host) == (2, "permits")
    assert chosen.holds is not None and chosen.holds > 1.5
    cheaper = next(one for one in edge.options if one.candidate.name == "permits x1")
    assert cheaper.at.reached and 1 < (cheaper.breaks or 0) <= EDGE_TIMES


def test_orders_of_two_upstreams_get_slots_and_a_bulkhead() -> None:
    orders = _advised(model(ORDERS), "p99 <= 10s")
    assert orders.verdict is AdviceVerdict.CHANGE
    held = [option for option in orders.options if option.set_up.upstream_limits]
    assert held
    assert orders.recommended is not None
    assert orders.recommended.candidate.name in {option.candidate.name for option in held}
    assert orders.recommended is not None and orders.recommended.at.reached
    option = settings.writable(orders)
    assert option is not None
    text = settings.settings_of(orders, option)
    (limit,) = set(option.set_up.upstream_limits.values())
    opened = re.sub("^# (task_[a-z]+ = )", r"\1", text, flags=re.MULTILINE)
    assert settings.checked(opened).task_limit == limit / option.set_up.processes > 0
    assert settings.checked(opened).task_key
    # As it is written all orders go on as without a bulkhead.
    assert settings.checked(text).task_limit == WorkSettings().task_limit
    assert '# task_key = "kwargs.merchant"' in text.splitlines()


@pytest.mark.parametrize(
    ("now", "held", "verdict", "name"),
    [
        # Both hold: that with which the others' orders go on.
        (True, True, AdviceVerdict.CHANGE, "bulkhead8"),
        (False, True, AdviceVerdict.CHANGE, "bulkhead8"),
        # Nothing that goes on reaches them: the goals come first.
        (True, False, AdviceVerdict.NOTHING, "present"),
        (False, False, AdviceVerdict.OUT_OF_REACH, None),
    ],
)
def test_where_the_present_one_would_stop_with_an_upstream(
    now: bool, held: bool, verdict: AdviceVerdict, name: str | None
) -> None:
    profile = model(ORDERS)
    runs = CellRuns(profile, goals(["p99 <= 30s"], profile), jobs=_JOBS)
    plain = SetUp("celery", 4, 2, limit=3)
    (at,) = runs.cells([(plain, profile, 0.2)], "")
    late = replace(at, goals=tuple(replace(each, within=0.5) for each in at.goals))
    options = [
        Option(Candidate(way, plain, way, number, number == 0), at if holds else late, holds=9.0, breaks=9.5)
        for number, (way, holds) in enumerate((("present", now), ("bulkhead8", held)))
    ]
    found, chosen = _chosen(options, {"bulkhead8"})
    assert found is verdict and name in (None, chosen.candidate.name)
