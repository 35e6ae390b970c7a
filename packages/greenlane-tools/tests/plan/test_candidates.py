"""What is worth simulating, and what theory rules out."""

from __future__ import annotations

from dataclasses import replace

from tests.plan.models import ORDERS, model, pricing

from greenlane_tools.plan.candidates import Room, candidates, heavy_routes, lane_routes, needed_processes
from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.options import Candidate
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.set_up import present

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
