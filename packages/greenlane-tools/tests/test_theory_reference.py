"""Core's theory says what its plain Python twin says, and keeps its promises."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from greenlane_tools._native import (
    OpenQueue,
    closed_bounds,
    closed_means,
    closed_number,
    hard_lane,
    shared_latency,
    waits_frac,
)
from tests.examples import examples
from tests.reference import theory

TIMES = st.floats(0.01, 1e4)


@given(cpu=TIMES, io=st.floats(0, 1e4), number=st.integers(1, 300))
def test_one_cpu_has_the_twins_means(cpu: float, io: float, number: int) -> None:
    assert closed_means(cpu, io, number) == pytest.approx(theory.one_cpu(cpu, io, number), rel=1e-12)


@given(cpu=TIMES, io=st.floats(0, 1e4), number=st.integers(1, 300))
def test_means_lie_within_the_bounds_and_keep_littles_law(cpu: float, io: float, number: int) -> None:
    per, latency, busy = closed_means(cpu, io, number)
    knee, most, least = closed_bounds(cpu, io, number)
    assert per <= most * (1 + 1e-9) and latency >= least * (1 - 1e-9)
    assert per * latency == pytest.approx(number)
    assert 0 <= busy <= 1 + 1e-9
    # The bounds meet at the knee.
    assert (number < knee) == (most < 1 / cpu * (1 - 1e-12)) or math.isclose(number, knee)


@given(cpu=TIMES, io=st.floats(0, 1e3), busy=st.floats(0.05, 0.99))
def test_the_number_that_fills_the_cpu_is_the_smallest(cpu: float, io: float, busy: float) -> None:
    number = closed_number(cpu, io, busy, 100_000)
    if number == 100_000:
        return
    assert closed_means(cpu, io, number)[2] >= busy
    assert number == 1 or closed_means(cpu, io, number - 1)[2] < busy


@given(servers=st.integers(1, 40), part=st.fractions(0, Fraction(99, 100)))
@settings(deadline=None)
def test_who_waits_is_as_erlang_wrote_it(servers: int, part: Fraction) -> None:
    offered = part * servers
    assert waits_frac(float(offered), servers) == pytest.approx(float(theory.erlang_c(offered, servers)), rel=1e-9)


@pytest.mark.parametrize("utilisation", [Fraction(1, 2), Fraction(4, 5), Fraction(9, 10)])
def test_constant_work_waits_as_the_alternating_sum_says(utilisation: Fraction) -> None:
    queue = OpenQueue(rate=float(utilisation), servers=1, times=[1.0])
    assert queue.wait() == pytest.approx(float(utilisation / (1 - utilisation) / 2))
    for time in (Fraction(1, 4), Fraction(3, 2), Fraction(4), Fraction(21, 2)):
        expected = 1 - theory.constant_wait_below(utilisation, time)
        assert queue.wait_beyond(float(time)) == pytest.approx(expected, rel=0.01, abs=2e-5)


@given(
    rate=st.floats(0.01, 0.95), times=st.lists(st.floats(0.1, 20), min_size=1, max_size=20), servers=st.integers(1, 8)
)
@examples(40)
def test_percentiles_are_where_their_share_is_left(rate: float, times: list[float], servers: int) -> None:
    mean = sum(times) / len(times)
    queue = OpenQueue(rate=rate * servers / mean, servers=servers, times=times)
    assert queue.utilisation() == pytest.approx(rate)
    earlier = 0.0
    for share in (0.1, 0.5, 0.9, 0.99):
        found = queue.latency_quantile(share)
        assert found >= earlier and found >= queue.wait_quantile(share)
        assert queue.latency_beyond(found * (1 + 1e-9)) <= 1 - share + 1e-9
        earlier = found
    assert queue.latency_beyond(max(times) * 1e6) == pytest.approx(0, abs=1e-6)


def test_the_wait_for_one_server_has_pollaczeks_and_khinchines_mean() -> None:
    times = [0.5] * 95 + [10.5] * 5
    queue = OpenQueue(rate=0.8, servers=1, times=times)
    assert queue.exact()
    step = 0.02
    by_parts = sum(queue.wait_beyond((cell + 0.5) * step) * step for cell in range(20_000))
    assert by_parts == pytest.approx(queue.wait(), rel=0.01)


def test_a_full_queue_says_inf() -> None:
    for queue in OpenQueue(rate=1.0, servers=1, times=[1.0]), OpenQueue(rate=2.0, servers=2, mean=1.0):
        assert queue.wait() == queue.latency_quantile(0.5) == queue.wait_quantile(0.99) == math.inf
        assert queue.latency_beyond(1e9) == 1
    assert shared_latency(1.0, 1.0) == math.inf


@pytest.mark.parametrize(
    "wrong",
    [{"rate": -1.0}, {"rate": math.nan}, {"servers": 0}, {"mean": 0.0}, {"mean": math.inf}, {"times": [1.0, -1.0]}],
)
def test_a_queue_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        OpenQueue(**{"rate": 0.5, "servers": 1, "mean": 1.0, **wrong})  # type: ignore[arg-type]


@given(processes=st.integers(1, 64), share=st.floats(0, 1), data=st.data())
def test_below_the_lanes_bound_nobody_has_more_than_it_can_do(
    processes: int, share: float, data: st.DataObject
) -> None:
    own = data.draw(st.integers(1, processes))
    others, lane = hard_lane(processes, own, share)
    below = min(others, lane, 1.0) * 0.999
    assert below * processes * share <= own + 1e-9
    assert below * processes * (1 - share) <= processes - own + 1e-9
