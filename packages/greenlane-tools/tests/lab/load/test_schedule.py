"""Schedules: the same for the same seed, as their arrivals say, and as much CPU as their label says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from greenlane_tools.lab.load.plan import Arrivals, Burst, Constant, Plan, Poisson, Recorded, Stream, Work
from greenlane_tools.lab.load.schedule import Schedule, offered_ms, schedule


def priced(seed: str = "1", seconds: float = 20.0, address: str = "127.0.0.1:1") -> Plan:
    return Plan(
        seed,
        seconds,
        (
            Stream("bikes", address, Poisson(20.0), "/bikes", cost_ms=4.0),
            Stream("quote", address, Poisson(18.0), "/quote", cost_ms=45.0, work=Work(40.0, 1.0)),
        ),
    )


def only(arrivals: Arrivals, seconds: float = 1.0) -> list[int]:
    made: list[int] = schedule(Plan("1", seconds, (Stream("one", "127.0.0.1:1", arrivals),))).at_ns.tolist()
    return made


def same(one: Schedule, other: Schedule) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("at_ns", "stream", "work_ms"))


def test_a_seed_means_the_same_requests_in_every_release() -> None:
    """As the first release drew them: a recorded result can be asked again, request by request."""
    made = schedule(priced(seconds=3.0))
    assert len(made.at_ns) == 107
    assert made.at_ns[:4].tolist() == [17_082_027, 90_438_468, 91_132_440, 110_286_776]
    assert made.stream[:4].tolist() == [0, 0, 1, 1]
    assert made.work_ms[:4].tolist() == [0.0, 0.0, 60.401, 56.928]


def test_the_same_seed_gives_every_contender_the_same_schedule_and_another_another() -> None:
    assert same(schedule(priced(address="127.0.0.1:1")), schedule(priced(address="127.0.0.1:2")))
    assert not same(schedule(priced("1")), schedule(priced("2")))


@pytest.mark.parametrize("seconds", [4.0, 60.0])
@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_the_offered_cpu_is_within_two_percent_of_the_label(seed: str, seconds: float) -> None:
    made = priced(seed, seconds)
    assert offered_ms(made, schedule(made)) == pytest.approx(seconds * (20.0 * 4.0 + 18.0 * 45.0), rel=0.02)


def test_gaps_are_exponential_and_work_is_lognormal_with_the_mean_and_spread_asked_for() -> None:
    made = schedule(priced(seconds=400.0))
    gaps = np.diff(made.at_ns[made.stream == 0]) / 1e9
    assert gaps.mean() == pytest.approx(1 / 20, rel=0.05)
    assert gaps.std() == pytest.approx(1 / 20, rel=0.08)
    work = made.work_ms[made.stream == 1]
    assert work.mean() == pytest.approx(40, rel=0.05)
    assert work.std() == pytest.approx(40, rel=0.15)
    assert (made.work_ms[made.stream == 0] == 0).all()


def test_constant_arrivals_are_evenly_spaced_and_as_many_as_their_rate_says() -> None:
    assert only(Constant(4.0)) == [125_000_000, 375_000_000, 625_000_000, 875_000_000]
    assert only(Constant(0.0)) == []


def test_a_burst_is_due_at_one_instant_again_and_again() -> None:
    assert only(Burst(3, 0.5, 0.25)) == [250_000_000] * 3 + [750_000_000] * 3
    assert only(Burst(2, 0.0, 0.1)) == [100_000_000] * 2


def test_recorded_arrivals_are_replayed_to_the_nanosecond_up_to_the_plan_s_end() -> None:
    assert only(Recorded((5, 3, 999_999_999, 1_000_000_000))) == [3, 5, 999_999_999]


def test_streams_are_merged_by_time() -> None:
    streams = (Stream("a", "127.0.0.1:1", Constant(50.0)), Stream("b", "127.0.0.1:1", Poisson(50.0)))
    made = schedule(Plan("1", 2.0, streams))
    assert all(before <= after for before, after in pairwise(made.at_ns.tolist()))
    assert set(made.stream.tolist()) == {0, 1}
    alone = schedule(Plan("1", 2.0, streams[1:]))
    assert np.array_equal(made.at_ns[made.stream == 1], alone.at_ns)


def test_no_streams_and_no_rate_make_no_requests() -> None:
    assert len(schedule(Plan("1", 1.0, ()))) == 0
    assert only(Poisson(0.0)) == []
