"""Schedules: the same for the same seed, Poisson, and as much CPU as their label says."""

from __future__ import annotations

import itertools
import statistics

import pytest

from greenlane.demo.plan import Plan, Stream, offered_ms, read_plan, schedule


def plan(seed: str = "1", seconds: float = 20.0, address: str = "127.0.0.1:1") -> Plan:
    return Plan(
        seed,
        seconds,
        (
            Stream("bikes", address, "/bikes", 20.0, cost_ms=4.0),
            Stream("quote", address, "/quote", 18.0, cost_ms=45.0, work_mean_ms=40.0, work_cv=1.0),
        ),
    )


def test_the_same_seed_gives_every_contender_the_same_schedule() -> None:
    assert schedule(plan(address="127.0.0.1:1")) == schedule(plan(address="127.0.0.1:2"))


def test_another_seed_gives_another_schedule() -> None:
    assert schedule(plan("1")) != schedule(plan("2"))


@pytest.mark.parametrize("seconds", [4.0, 10.0, 60.0])
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_the_offered_cpu_is_within_two_percent_of_the_label(seed: str, seconds: float) -> None:
    made = plan(seed, seconds)
    expected = seconds * (20.0 * 4.0 + 18.0 * 45.0)
    assert offered_ms(made, schedule(made)) == pytest.approx(expected, rel=0.02)


def test_arrivals_are_in_order_and_inside_the_time() -> None:
    times = [arrival.at_s for arrival in schedule(plan())]
    assert times == sorted(times)
    assert 0 < times[0] and times[-1] < 20.0


def test_gaps_are_exponential_and_work_is_lognormal_with_the_mean_and_spread_asked_for() -> None:
    arrivals = schedule(plan(seconds=400.0))
    bikes = [arrival.at_s for arrival in arrivals if arrival.stream == 0]
    gaps = [after - before for before, after in itertools.pairwise(bikes)]
    assert statistics.mean(gaps) == pytest.approx(1 / 20, rel=0.05)
    assert statistics.stdev(gaps) == pytest.approx(1 / 20, rel=0.08)
    work = [arrival.work_ms for arrival in arrivals if arrival.stream == 1]
    assert statistics.mean(work) == pytest.approx(40, rel=0.05)
    assert statistics.stdev(work) == pytest.approx(40, rel=0.15)


def test_a_stream_without_drawn_work_sends_none() -> None:
    assert all(arrival.work_ms == 0 for arrival in schedule(plan()) if arrival.stream == 0)


def test_a_plan_survives_its_way_to_the_generator() -> None:
    assert read_plan(plan().as_json()) == plan()
