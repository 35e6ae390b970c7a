"""What is worth simulating, and what theory rules out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plan.models import ORDERS, model, pricing

from greenlane.errors import PlanError
from greenlane_tools.plan.band import full_load, with_cliff
from greenlane_tools.plan.candidates import Room, candidates, heavy_routes, lane_routes, needed_processes
from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.options import Candidate, CellRuns, Option, Predicted
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.set_up import CALL_RELEASES, DOOR_RELEASES, SetUp, SetUpLane, costs_of, present
from greenlane_tools.plan.slots import bulkhead, slots

GOAL = Goal("GET /bikes", 0.999, 500)


def _of(profile: Profile, goal: Goal = GOAL, cores: int = 4) -> dict[str, Candidate]:
    return {each.name: each for each in candidates(profile, [goal], present(profile), Room(cores, cores))}


def test_the_present_one_is_the_first_and_all_differ() -> None:
    found = candidates(pricing(), [GOAL], present(pricing()), Room(4, 4))
    assert found[0].name == "present"
    assert found[0].set_up == present(pricing())
    assert all(one.set_up != other.set_up for at, one in enumerate(found) for other in found[:at])


def test_permits_lanes_and_processes_are_among_them() -> None:
    names = set(_of(pricing()))
    assert {
        "permits x1", "threads-64 x1", "serve x2", "serve-soft x2", "serve-hard1 x2",
    } <= names  # fmt: skip


def test_fewer_processes_than_the_work_needs_are_not_tried() -> None:
    busy = pricing(times=3.0)
    least = needed_processes(busy)
    assert least == 3
    assert all(each.set_up.processes >= least for each in _of(busy).values() if each.name != "present")


def test_a_hard_lane_whose_neighbours_would_be_full_is_not_tried() -> None:
    names = set(_of(pricing(times=2.0), cores=3))  # 1.7 cores of work, 0.18 of it bikes
    assert "serve-hard1 x3" in names
    assert "serve-hard2 x3" not in names


def test_a_lane_is_for_routes_of_which_enough_was_seen() -> None:
    profile = replace(pricing(), source="recording")
    seen = tuple(replace(route, requests=19 if route.route == GOAL.route else 1000) for route in profile.routes)
    assert lane_routes(replace(profile, routes=seen), [GOAL]) == ()
    enough = tuple(replace(route, requests=20) for route in profile.routes)
    assert lane_routes(replace(profile, routes=enough), [GOAL]) == (GOAL.route,)


def test_with_goals_for_all_the_lane_is_for_the_light_ones() -> None:
    profile = pricing()
    assert [route.route for route in heavy_routes(profile)] == ["GET /quote/<int:id>"]
    wanted = [GOAL, Goal("GET /quote/<int:id>", 0.99, 500)]
    assert lane_routes(profile, wanted) == (GOAL.route,)


def test_slots_of_a_task_system_follow_littles_law_and_come_with_a_bulkhead() -> None:
    orders = model(ORDERS)
    found = _of(orders, Goal("send taco", 0.99, 30_000))
    slots = [each.set_up.processes * each.set_up.limit for name, each in found.items() if name.startswith("slots")]
    little = 2 * 0.8333 * 3.004
    assert min(slots) >= little
    held = [each for name, each in found.items() if name.startswith("bulkhead")]
    assert held
    assert all(set(each.set_up.upstream_limits) == {"taco", "sushi"} for each in held)


def test_a_bulkhead_is_what_each_process_can_have_a_share_of() -> None:
    found = _of(model(ORDERS), Goal("send taco", 0.99, 30_000)).values()
    held = [(each.set_up.processes, set(each.set_up.upstream_limits.values())) for each in found]
    held = [(processes, limits) for processes, limits in held if limits]
    assert any(processes > 1 for processes, _ in held)
    assert all(limit % processes == 0 for processes, limits in held for limit in limits)


def test_heavy_work_beside_an_asyncio_loop_is_placed() -> None:
    profile = replace(pricing(), host="asyncio")
    names = set(_of(profile))
    assert {"placed-thread x1", "placed-process1 x1"} <= names


def test_however_many_cores_there_are_only_a_few_more_than_needed_are_tried() -> None:
    orders = _of(model(ORDERS), Goal("send taco", 0.99, 30_000), cores=64)
    assert max(each.set_up.processes for each in orders.values()) == 4 + 4
    busy = _of(replace(pricing(times=8.0), host="asyncio"), cores=64)  # quotes alone take 6.1 cores
    pools = {each.set_up.pool for name, each in busy.items() if name.startswith("placed-process")}
    assert pools == set(range(7, 7 + 4 + 1))


# --- The present set-up of a profile, and what a way of serving adds to its requests.


def test_the_present_one_is_the_profiles() -> None:
    found = present(pricing())
    assert (found.host, found.processes, found.cores, found.limit, found.queue) == ("gevent", 1, 2, 1000, "accept")


@pytest.mark.parametrize(
    ("host", "recorded_ms", "found_ms"),
    [("permits", None, 5), ("permits", 0.5, 5), ("permits", 8, 8), ("threads", 0.5, 0.5), ("threads", None, 5)],
)
def test_the_present_interval_is_the_process_own_and_not_that_of_a_permit(
    host: str, recorded_ms: float | None, found_ms: float
) -> None:
    assert present(replace(pricing(), host=host, switch_interval_ms=recorded_ms)).switch_interval_ms == found_ms


@pytest.mark.parametrize("recorded", ["gevent", "asyncio"])
def test_only_a_loops_profile_lacks_the_short_calls_of_threads(recorded: str) -> None:
    for host in ("threads", "permits"):
        assert costs_of(replace(pricing(), host=recorded), host, front=False).call_releases == CALL_RELEASES
        costs = costs_of(replace(pricing(), host="threads"), host, front=False)
        assert (costs.call_releases, costs.door_releases) == (0, DOOR_RELEASES)
    costs = costs_of(replace(pricing(), host=recorded), recorded, front=False)
    assert (costs.call_releases, costs.door_releases, costs.request_releases, costs.switch_us) == (0, 0, 0, 0)


# --- Slots for orders that mostly wait: Little's law, some more, and what one hanging upstream does to them.


@pytest.mark.parametrize("stay_s", [24, 30, 32])
def test_six_thousand_orders_an_hour_are_within_a_tenth_of_littles_law(stay_s: float) -> None:
    found = slots(6000 / 3600, 1000 * stay_s, 180)
    assert found.busy == pytest.approx(6000 / 3600 * stay_s)
    assert 1 < found.needed / found.busy <= 1.1 + 1 / found.busy
    assert found.processes == 1  # 0.3 of a core


def test_four_slots_of_32_seconds_are_450_orders_an_hour() -> None:
    assert slots(450 / 3600, 32_000).busy == pytest.approx(4)
    assert slots(450 / 3600, 32_000).needed > 4


def test_cpu_asks_for_processes() -> None:
    assert slots(100, 300, 20).processes == 3  # 2 cores of work, at most 0.7 of each
    assert slots(100, 300).processes == 1


@pytest.mark.parametrize("number", [60, 200])
def test_a_bulkhead_leaves_the_others_what_they_have_busy_on_average(number: int) -> None:
    found = bulkhead(number, {"slow": 0.2, "a": 0.8, "b": 0.7}, 20_000, "slow")
    assert 0 < found <= number // 2
    assert number - found >= 30


@given(rate=st.floats(0, 50), stay_ms=st.floats(0, 60_000), more=st.floats(0, 10))
def test_more_orders_never_need_fewer_slots(rate: float, stay_ms: float, more: float) -> None:
    fewer, many = slots(rate, stay_ms), slots(rate + more, stay_ms)
    assert fewer.busy < fewer.needed <= many.needed


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(PlanError, match="at most 1000000 slots"):
        slots(-1, 5)
    with pytest.raises(PlanError, match="at most 1000000 slots"):
        slots(1e6, 1e6)


# --- How far the cliff is: where a goal breaks, and where processes are full.


#: One process at 0.86 of its CPU: full at 1.165 times the load.
ONE = SetUp("gevent", 1, 2)


@dataclass(frozen=True)
class _Run(Predicted):
    """Whose goals are reached or not, and nothing else."""

    holds: bool = True

    @property
    def reached(self) -> bool:
        return self.holds


@dataclass(frozen=True)
class _Cliffs(CellRuns):
    """Runs hold below a load."""

    most: float = math.inf

    def cells(self, cells: Sequence[tuple[SetUp, Profile, float]], said: str, *, quick: bool = True) -> list[Predicted]:
        assert not quick
        return [_Run(load, None, (), load < self.most) for _, _, load in cells]  # type: ignore[arg-type]


def _looked_at(most: float) -> Option:
    runs = _Cliffs(pricing(), (), most=most)
    short = _Run(1.0, None, ())  # type: ignore[arg-type]
    (option,) = with_cliff(runs, [Option(Candidate("one", ONE, "one", 0, True), short)])
    assert option.at.reached == (most > 1)
    assert [run.load for run in option.curve] == sorted(run.load for run in option.curve)
    return option


@pytest.mark.parametrize("most", [0.3, 0.97, 1.005, 1.03, 1.065, 1.085, 1.1, 1.15])
def test_where_a_goal_breaks_is_known_to_some_per_cent(most: float) -> None:
    option = _looked_at(most)
    assert option.holds is not None and option.breaks is not None
    assert option.holds < most <= option.breaks < 1.04 * option.holds + 0.01


def test_what_holds_until_it_is_full_breaks_there_and_what_never_holds_at_the_lowest_load() -> None:
    option = _looked_at(math.inf)
    assert (
        option.breaks == full_load(pricing(), ONE) and option.holds is not None and 1.1 < option.holds < option.breaks
    )
    never = _looked_at(0.0)
    assert never.holds == 0 and never.breaks == never.curve[0].load < 0.1


def test_a_hard_lane_is_full_when_the_first_of_its_sides_is() -> None:
    two = replace(ONE, processes=2)
    alone = SetUpLane("apart", ("GET /bikes",), "hard", processes=1)
    # Quotes need 48 x 16 ms of CPU a second, all on the one process that is left to them.
    assert full_load(pricing(), replace(two, lanes=(alone,))) == pytest.approx(1 / 0.768, rel=0.01)
    assert full_load(pricing(), two) == pytest.approx(2 / 0.858, rel=0.01)
