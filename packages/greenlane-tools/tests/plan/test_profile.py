"""The profile: what is written is read back, and what cannot be is refused with its place and a rule."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from tests.plan.profiles import BIKES, profiles

from greenlane.errors import PlanError
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.route import Step, joined
from greenlane_tools.plan.sources import profile_of_model
from tests.examples import examples

SMALL: dict[str, Any] = {
    "schema": "greenlane.profile/1",
    "host": "threads",
    "routes": [
        {"route": "GET /x", "rate_per_s": 2, "sequences": [{"steps": [["cpu", 5], ["io", 55, 0]]}], "upstreams": ["db"]}
    ],
}


def read(**changed: object) -> Profile:
    return Profile.from_json(json.dumps({**SMALL, **changed}))


def route(**changed: object) -> Profile:
    return read(routes=[{**SMALL["routes"][0], **changed}])


@pytest.mark.slow
@examples(60)
@given(profiles())
def test_what_is_written_is_read_back_and_written_the_same(profile: Profile) -> None:
    written = profile.to_json()
    assert Profile.from_json(written) == profile
    assert Profile.from_json(written).to_json() == written


def test_few_fields_are_enough() -> None:
    found = read()
    assert (found.arrivals.rate_per_s, found.processes, found.source) == (2.0, 1, "model")
    assert found.routes[0].demand.cpu_ms == 5 and found.routes[0].demand.io_ms == 55


@pytest.mark.parametrize(
    ("changed", "name", "says"),
    [
        ({"schema": "greenlane.profile/2"}, "schema", "a later release"),
        ({"schema": "greenlane.report/1"}, "schema", "the file that `greenlane plan` wrote"),
        ({"host": "gevnt"}, "host", "did you mean 'gevent'?"),
        ({"host": None}, "host", "write it"),
        ({"routes": []}, "routes", "at least one route"),
        ({"procesess": 4}, "procesess", "did you mean 'processes'?"),
        ({"processes": 0}, "processes", "a whole number of at least 1"),
        ({"seconds": -1}, "seconds", "a number of at least 0"),
        ({"arrivals": {"rate_per_s": 7}}, "arrivals.rate_per_s", "the sum of the routes' rates, 2"),
        ({"requests": 10}, "requests", "the sum of the routes' requests, 0"),
        ({"measured": {"GET /y": {"buckets": [[1, 1]]}}}, "measured", "a route of the profile"),
        ({"measured": {"GET /x": {"buckets": [[1, "x"]]}}}, "measured.GET /x.buckets", "pairs of a bucket"),
        ({"routes": [SMALL["routes"][0], SMALL["routes"][0]]}, "routes", "each route once"),
    ],
)
def test_a_wrong_field_is_named_with_its_rule(changed: dict[str, object], name: str, says: str) -> None:
    with pytest.raises(PlanError) as refused:
        read(**changed)
    assert refused.value.name == name and says in str(refused.value)


@pytest.mark.parametrize(
    ("changed", "name", "says"),
    [
        ({"rate_per_s": None}, "routes[0].rate_per_s", "write it"),
        ({"sequences": []}, "routes[0].sequences", "at least one"),
        ({"deadline_ms": 0}, "routes[0].deadline_ms", "above 0"),
        ({"sequences": [{"steps": [["gpu", 5]]}]}, "routes[0].sequences[0].steps", '["cpu", ms]'),
        ({"sequences": [{"steps": [["io", 5, 1]]}]}, "routes[0].sequences[0].steps", "an index below 1"),
        ({"sequences": [{"steps": [["cpu", 5, 0]]}]}, "routes[0].sequences[0].steps", "only I/O has one"),
        ({"sequences": [{"steps": [["cpu", "5"]]}]}, "routes[0].sequences[0].steps", "ms a number"),
        ({"sequences": [{"steps": [["cpu", 0]]}]}, "routes[0].sequences[0].steps", "with time in it"),
        ({"sequences": [{"weight": 0, "steps": [["cpu", 1]]}]}, "routes[0].sequences[0].weight", "above 0"),
        ({"mean": {"cpu_ms": 9, "io_ms": 55}}, "routes[0].mean.cpu_ms", "near what its sequences have"),
        ({"meen": {}}, "routes[0].meen", "did you mean 'mean'?"),
    ],
)
def test_a_wrong_field_of_a_route_is_named_with_its_rule(changed: dict[str, object], name: str, says: str) -> None:
    with pytest.raises(PlanError) as refused:
        route(**changed)
    assert refused.value.name == name and says in str(refused.value)


def test_requests_that_do_not_fit_rate_and_seconds_contradict_it() -> None:
    with pytest.raises(PlanError, match="its requests by the profile's seconds, 10"):
        Profile.from_json(json.dumps({**SMALL, "seconds": 100, "routes": [{**SMALL["routes"][0], "requests": 1000}]}))


@pytest.mark.parametrize("cut", [0.2, 0.5, 0.9, 0.999])
def test_a_damaged_file_says_that_it_was_cut(cut: float) -> None:
    whole = profile_of_model(BIKES).to_json()
    with pytest.raises(PlanError, match="it was cut or changed"):
        Profile.from_json(whole[: int(len(whole) * cut)])


def test_a_simulator_gets_exact_means_overhead_and_no_held_steps() -> None:
    found = route(
        sequences=[
            {"weight": 1, "steps": [["cpu", 2], ["held", 4], ["cpu", 2], ["io", 30, 0]]},
            {"weight": 3, "steps": [["cpu", 4], ["io", 50, 0]]},
        ],
        threshold=1e-9,
        mean={"cpu_ms": 8, "io_ms": 45, "held_ms": 1},
    )
    on_threads = found.simulated("threads").routes[0]
    assert on_threads.demand.cpu_ms == pytest.approx(8) and on_threads.demand.io_ms == pytest.approx(46)
    on_loop = found.simulated("gevent").routes[0]
    assert on_loop.demand.cpu_ms == pytest.approx(9) and on_loop.demand.io_ms == pytest.approx(45)
    assert {step.kind for each in on_loop.sequences for step in each.steps} == {"cpu", "io"}
    busy = Profile.from_json(found.to_json().replace(b'"overhead_ms":0.0', b'"overhead_ms":0.5')).simulated()
    assert busy.routes[0].demand.cpu_ms == pytest.approx(8.5)
    assert Profile.from_json(on_loop_json(found)).routes[0].demand.cpu_ms == pytest.approx(9, abs=1e-4)


def test_what_threads_compute_without_the_gil_keeps_a_loop() -> None:
    found = route(sequences=[{"steps": [["cpu", 2], ["free", 5], ["io", 30, 0]]}])
    assert found.simulated("threads").routes[0].demand.free_ms == 5
    on_loop = found.simulated("gevent").routes[0].demand
    assert (on_loop.cpu_ms, on_loop.free_ms) == (7, 0)
    moved = replace(found, host="asyncio")
    assert moved.simulated("asyncio").routes[0].demand.free_ms == 5


def test_what_a_loop_computes_without_the_gil_is_free_on_threads_only() -> None:
    steps = [["cpu", 10], ["io", 30, 0], ["cpu", 0.1]]
    found = replace(route(sequences=[{"steps": steps}], unlocked_frac=0.8), host="gevent")
    assert Profile.from_json(found.to_json()) == found
    on_loop = found.simulated("asyncio").routes[0]
    assert [(step.kind, step.ms) for step in on_loop.sequences[0].steps] == [("cpu", 10), ("io", 30), ("cpu", 0.1)]
    for host in ("threads", "permits", "celery"):
        on_threads = found.simulated(host).routes[0]
        # With the GIL before, and after for the answer; a short stretch has it all along.
        expected = [("cpu", 1), ("free", 8), ("cpu", 1), ("io", 30), ("cpu", 0.1)]
        assert [(step.kind, step.ms) for step in on_threads.sequences[0].steps] == [
            (kind, pytest.approx(ms)) for kind, ms in expected
        ]
        assert on_threads.unlocked_frac is None
    placed = found.simulated(threaded=["GET /x", found.routes[0].route]).routes[0]
    assert placed.demand.free_ms == pytest.approx(8) and placed.demand.cpu_ms == pytest.approx(2.1)
    recorded_there = replace(found, host="threads")
    assert recorded_there.simulated("permits").routes[0].demand.free_ms == 0


@pytest.mark.parametrize("frac", [-0.1, 1.1, "most"])
def test_a_share_of_cpu_without_the_gil_is_one(frac: object) -> None:
    with pytest.raises(PlanError, match="unlocked_frac"):
        route(unlocked_frac=frac)


@pytest.mark.parametrize(("seconds", "told"), [(60.0, 1.0), (6000.0, 1.3), (0.0, 1.3)])
def test_unevenness_that_so_short_a_time_cannot_tell_is_taken_for_chance(seconds: float, told: float) -> None:
    found = replace(route(), seconds=seconds, arrivals=replace(route().arrivals, dispersion=1.3))
    assert found.simulated().arrivals.dispersion == told


def on_loop_json(profile: Profile) -> bytes:
    return profile.simulated("gevent").to_json()


def test_neighbours_of_a_kind_are_joined_and_yields_stay() -> None:
    steps = [Step("cpu", 1), Step("free", 0), Step("cpu", 2), Step("io", 0), Step("io", 3, 1), Step("io", 4, 1)]
    assert joined(steps) == (Step("cpu", 3), Step("io", 0), Step("io", 7, 1))
    assert joined(joined(steps)) == joined(steps)
