"""A region's load: the same for the same seed, as much of it as the region says."""

from __future__ import annotations

import numpy as np
import pytest

from offers import load, table

ADDRESS = "127.0.0.1:1"
KNOWN = table.read(table.FOLDER)


def of(loaded: load.Load, endpoint: str) -> tuple[np.ndarray, np.ndarray]:
    """When it is asked for (s), and with which numbers."""
    number = [stream.name for stream in loaded.plan.streams].index(endpoint)
    mine = loaded.schedule.stream == number
    return loaded.schedule.at_ns[mine] / 1e9, loaded.schedule.work_ms[mine]


def test_the_same_seed_is_the_same_load_and_another_is_another() -> None:
    hills = KNOWN.regions["hills"]
    one, same, other = (load.with_riders(KNOWN, hills, ADDRESS, 20, seed) for seed in ("a", "a", "b"))
    assert one.plan.streams == same.plan.streams
    assert np.array_equal(one.schedule.at_ns, same.schedule.at_ns)
    assert np.array_equal(one.schedule.work_ms, same.schedule.work_ms)
    assert len(one) != len(other) or not np.array_equal(one.schedule.at_ns, other.schedule.at_ns)


@pytest.mark.parametrize("region", sorted(KNOWN.regions))
@pytest.mark.parametrize("scale", [0.5, 1.0])
def test_a_load_asks_for_the_cpu_that_its_region_says(region: str, scale: float) -> None:
    one = KNOWN.regions[region]
    drawn = load.direct(KNOWN, one, ADDRESS, 60, "x", scale=scale)
    expected_ms = load.expected_cpu_ms_per_s(KNOWN, one, scale) * 60
    streams = drawn.plan.streams
    by_w = np.array([one.work is not None and one.work.parameter == "w" for one in streams])[drawn.schedule.stream]
    cpu_ms = np.array([KNOWN.endpoints[one.name].cpu_ms for one in streams])[drawn.schedule.stream]
    assert float((np.where(by_w, drawn.schedule.work_ms, 1.0) * cpu_ms).sum()) == pytest.approx(expected_ms, rel=0.05)


def test_endpoints_are_streams_of_their_own_and_all_requests_are_in_order() -> None:
    drawn = load.with_riders(KNOWN, KNOWN.regions["hills"], ADDRESS, 30, "x")
    names = [stream.name for stream in drawn.plan.streams]
    assert len(set(names)) == len(names) > 90
    assert (np.diff(drawn.schedule.at_ns) >= 0).all()
    assert drawn.schedule.at_ns[-1] < 30e9
    assert all(stream.path == f"{KNOWN.endpoints[stream.name].path}?region=hills" for stream in drawn.plan.streams)


def test_a_rider_asks_for_bikes_and_scooters_at_one_instant_each_with_an_id_of_its_own() -> None:
    drawn = load.with_riders(KNOWN, KNOWN.regions["north"], ADDRESS, 30, "x")
    (bikes_s, bikes), (scooters_s, scooters) = (of(drawn, name) for name in load.OFFERS)
    assert np.array_equal(bikes_s, scooters_s)
    assert len({*bikes, *scooters}) == 2 * len(bikes)
    rate = KNOWN.regions["north"].riders_per_s
    assert abs(len(bikes) - 30 * rate) < 5 * np.sqrt(30 * rate)


def test_callers_but_offerservice_do_not_ask_for_bikes() -> None:
    drawn = load.direct(KNOWN, KNOWN.regions["hills"], ADDRESS, 30, "x")
    assert not {*load.OFFERS} & {stream.name for stream in drawn.plan.streams}


def test_every_period_has_its_burst_and_small_and_great_ones_are_as_many_as_in_the_law() -> None:
    hills = KNOWN.regions["hills"]
    [burst] = hills.bursts
    at_s, _ = of(load.direct(KNOWN, hills, ADDRESS, burst.every_s * 40, "x"), burst.endpoint)
    instants, sizes = np.unique(at_s, return_counts=True)
    instants, sizes = instants[sizes > 1], sizes[sizes > 1]
    # A burst of one cannot be told from a caller of its own.
    assert 36 <= len(instants) <= 40
    assert np.unique(instants // burst.every_s).size == len(instants)
    assert sizes.max() <= burst.size_most
    assert sizes.mean() == pytest.approx(burst.size_mean, rel=0.15)
