"""Merging: in any order the same, nothing counted twice, and the sample stands for what it was taken from."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence as Many
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.plan.profiles import BIKES, profiles, sampled

from greenlane.errors import PlanError
from greenlane_tools.plan.merging import When, merged
from greenlane_tools.plan.model_file import profile_of_model
from greenlane_tools.plan.profile import Mean, Profile, Route
from greenlane_tools.plan.sampling import kept, ranked
from greenlane_tools.plan.steps import Sequence, Step
from tests.examples import examples

WHEN = pytest.mark.parametrize("when", When)


def heavy_or_light(chance: random.Random) -> tuple[Step, ...]:
    if chance.random() < 0.1:
        return (Step("cpu", round(chance.lognormvariate(3, 0.5), 4)), Step("io", 5.0, 0))
    return (Step("cpu", round(chance.expovariate(1.0), 4) + 0.01), Step("io", round(chance.uniform(20, 60), 3), 0))


def alike(one: Profile, other: Profile) -> None:
    """Equal but for the last bits of sums."""
    assert [route.route for route in one.routes] == [route.route for route in other.routes]
    for mine, theirs in zip(one.routes, other.routes, strict=True):
        assert mine.sequences == theirs.sequences
        assert (mine.requests, mine.threshold) == (theirs.requests, theirs.threshold)
        assert (mine.deadline_ms, mine.lane, mine.memory_mb) == (theirs.deadline_ms, theirs.lane, theirs.memory_mb)
        for a, b in zip(numbers(mine), numbers(theirs), strict=True):
            assert (a is None) == (b is None) and (a is None or a == pytest.approx(b, rel=1e-9, abs=1e-12))
    whole = [(p.processes, p.cores, p.slots, p.name, p.notes, p.upstreams) for p in (one, other)]
    assert whole[0] == whole[1]
    assert {name: each.counts for name, each in one.measured.items()} == {
        name: each.counts for name, each in other.measured.items()
    }
    assert one.seconds == pytest.approx(other.seconds)
    assert (one.arrivals.dispersion is None) == (other.arrivals.dispersion is None)
    assert one.arrivals.dispersion is None or one.arrivals.dispersion == pytest.approx(
        other.arrivals.dispersion, rel=1e-6, abs=1e-6
    )


def numbers(route: Route) -> Many[float | None]:
    mean: Mean = route.demand
    means = (mean.cpu_ms, mean.free_ms, mean.io_ms, mean.held_ms)
    return (route.rate_per_s, route.bytes_in, route.bytes_out, *means, route.unlocked_frac)


def ordered(profile: Profile) -> Profile:
    """Routes whose rates differ in the last bit only may come in either order."""
    return replace(profile, routes=tuple(sorted(profile.routes, key=lambda route: route.route)))


@pytest.mark.slow
@WHEN
@examples(40)
@given(profiles(), profiles(), profiles())
def test_it_does_not_matter_what_is_merged_first(when: When, a: Profile, b: Profile, c: Profile) -> None:
    whole = ordered(merged([a, b, c], when))
    alike(whole, ordered(merged([merged([a, b], when), c], when)))
    alike(whole, ordered(merged([a, merged([b, c], when)], when)))
    alike(whole, ordered(merged([c, a, b], when)))


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=40), st.integers(1, 10), st.integers(0, 39))
def test_a_sample_of_samples_is_the_sample_of_all(sizes: list[float], most: int, cut: int) -> None:
    made = [ranked(Sequence(1.0, (Step("cpu", size),), size), f"job {number}") for number, size in enumerate(sizes)]
    whole = kept(made, 0.0, most)
    first, left = kept(made[:cut], 0.0, most)
    second, right = kept(made[cut:], 0.0, most)
    assert kept([*first, *second], max(left, right), most) == whole


@WHEN
@examples(30)
@given(profiles(), profiles())
def test_requests_and_latencies_add_up(when: When, a: Profile, b: Profile) -> None:
    both = merged([a, b], when)
    assert both.requests == a.requests + b.requests
    assert sum(each.samples for each in both.measured.values()) == sum(
        each.samples for profile in (a, b) for each in profile.measured.values()
    )
    assert Profile.from_json(both.to_json()).requests == both.requests


@pytest.mark.slow
def test_a_kept_sample_stands_for_all_on_average() -> None:
    """Of 24 samplings the mean count, and CPU, is within a few of its standard errors of the truth."""
    requests, counts, cpu = 1500, [], []
    for seed in range(24):
        route = sampled(heavy_or_light, requests, seed=seed).routes[0]
        truth = sampled(heavy_or_light, requests, seed=seed, most=requests).routes[0]
        assert len(route.sequences) == 256 and len(truth.sequences) == requests
        counts.append(math.fsum(each.weight for each in route.sequences) / requests)
        cpu.append(
            math.fsum(each.weight * each.ms("cpu") for each in route.sequences) / (truth.demand.cpu_ms * requests)
        )
    for found in (counts, cpu):
        mean = sum(found) / len(found)
        spread = math.sqrt(sum((each - mean) ** 2 for each in found) / (len(found) - 1))
        assert abs(mean - 1) < 4 * spread / math.sqrt(len(found)) and spread < 0.1


def test_after_merging_each_part_has_its_share() -> None:
    """9 of 10 requests are of the first part: so is the weight, though both had 256 sequences."""
    cheap = sampled(lambda chance: (Step("cpu", 1 + chance.random()),), 9000, seed=1)
    dear = sampled(lambda chance: (Step("cpu", 10 + chance.random()),), 1000, seed=2)
    both = merged([cheap, dear]).routes[0]
    total = math.fsum(each.weight for each in both.sequences)
    late = math.fsum(each.weight for each in both.sequences if each.ms("cpu") >= 10)
    assert len(both.sequences) == 256 and both.requests == 10_000
    assert late / total == pytest.approx(0.1, abs=0.05)
    assert both.demand.cpu_ms == pytest.approx(0.9 * 1.5 + 0.1 * 10.5, rel=0.02)


def test_another_time_and_another_machine_differ() -> None:
    day, night = profile_of_model(BIKES), profile_of_model(BIKES.replace("rate_per_s = 20", "rate_per_s = 10"))
    over_time, side_by_side = merged([day, night]), merged([day, night], When.SAME_TIME)
    assert over_time.seconds == 120 and over_time.route("bikes").rate_per_s == pytest.approx(15)
    assert (over_time.processes, over_time.cores) == (2, 2)
    assert side_by_side.seconds == pytest.approx(60) and side_by_side.route("bikes").rate_per_s == pytest.approx(30)
    assert (side_by_side.processes, side_by_side.cores) == (4, 4)


def test_a_model_beside_a_recording_weighs_by_its_seconds() -> None:
    recorded = sampled(lambda _: (Step("cpu", 2.0),), 600, seed=3, name="bikes")
    model = replace(profile_of_model(BIKES), host="threads")
    both = merged([recorded, model]).route("bikes")
    by_hand = math.fsum(each.weight for each in both.sequences if each.ms("io") > 0)
    assert by_hand / math.fsum(each.weight for each in both.sequences) == pytest.approx(1200 / 1800, abs=0.05)


def test_bursts_between_times_count() -> None:
    calm = replace(profile_of_model(BIKES), arrivals=replace(profile_of_model(BIKES).arrivals, dispersion=1.0))
    routes = tuple(replace(route, rate_per_s=3 * route.rate_per_s) for route in calm.routes)
    rush = replace(calm, routes=routes)
    # Rates 70 and 210, each Poisson: variance 140 within, 70^2 between; by the mean of 140.
    assert merged([calm, rush]).arrivals.dispersion == pytest.approx(1 + 70**2 / 140)
    assert merged([calm, rush], When.SAME_TIME).arrivals.dispersion == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("changed", "name"),
    [({"host": "threads"}, "host"), ({"anonymous": True}, "anonymous"), ({"seconds": 0.0}, "seconds")],
)
def test_what_contradicts_itself_is_not_merged(changed: dict[str, object], name: str) -> None:
    one = profile_of_model(BIKES)
    with pytest.raises(PlanError) as refused:
        merged([one, replace(one, **changed)])  # type: ignore[arg-type]
    assert refused.value.name == name


def test_two_lanes_of_one_route_are_a_contradiction() -> None:
    one = profile_of_model(BIKES)
    lanes = [replace(one, routes=tuple(replace(route, lane=lane) for route in one.routes)) for lane in ("fast", "slow")]
    with pytest.raises(PlanError, match=r"quote\.lane='fast', expected the same lane|bikes\.lane='fast'"):
        merged(lanes)


def test_upstreams_keep_their_steps_under_new_numbers() -> None:
    one = profile_of_model(BIKES)
    other = profile_of_model(BIKES.replace('"offers"', '"a-cache"'))
    both = merged([one, other]).route("bikes")
    assert both.upstreams == ("a-cache", "offers")
    called = [{both.upstreams[step.upstream] for step in each.steps if step.kind == "io"} for each in both.sequences]
    assert sorted(map(sorted, called)) == [["a-cache"], ["offers"]]
