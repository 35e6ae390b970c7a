"""Bounds and means against numbers that were computed elsewhere: published tables, and the article's own."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenlane.errors import PlanError
from greenlane_tools.plan import bounds


def test_the_articles_rule_is_the_knee_less_one() -> None:
    # It says {network}/{cpu}, 55/5 = 11, and calls it 12; the knee is 1 + S/C = 12, and 4 for 50 and 150 ms.
    assert bounds.knee(5, 55).value == 12
    assert bounds.knee(50, 150).value == 4
    assert bounds.speed_up(5, 55).value == pytest.approx(12)
    assert {each.symbol: each.value for each in bounds.speed_up(5, 55).given}["p"] == pytest.approx(55 / 60)
    assert bounds.knee(0, 55).value == math.inf


@pytest.mark.parametrize(("number", "latency_ms"), [*((n, 60) for n in range(1, 13)), (13, 65), (20, 100), (50, 250)])
def test_constant_work_of_one_call(number: int, latency_ms: float) -> None:
    # An exact loop of N places in order of readiness: R = max(60, N C), X = min(N/60, 1/5).
    assert bounds.least(5, 55, number).value == latency_ms
    assert bounds.most(5, 55, number).value == pytest.approx(1000 * min(number / 60, 1 / 5))


@pytest.mark.parametrize(
    ("cpu_ms", "io_ms", "number", "per_s", "latency_ms", "busy"),
    [  # exact mean value analysis, as several programs give it
        (5, 55, 1, 16.7, 60, 0.08),
        (5, 55, 5, 80.5, 62.1, 0.40),
        (5, 55, 11, 158.8, 69.3, 0.79),
        (5, 55, 12, 168.2, 71.3, 0.84),
        (5, 55, 15, 188, 79.7, 0.94),
        (5, 55, 20, 199, 100.5, 0.995),
        (5, 55, 50, 200, 250, 1.0),
        (50, 150, 1, 5.0, 200, 0.25),
        (50, 150, 5, 17.8, 281, 0.89),
        (50, 150, 12, 20, 600, 1.0),
    ],
)
def test_work_that_varies(
    cpu_ms: float, io_ms: float, number: int, per_s: float, latency_ms: float, busy: float
) -> None:
    means = bounds.closed(cpu_ms, io_ms, number)
    assert means.done.value == pytest.approx(per_s, rel=3e-3)
    assert means.latency.value == pytest.approx(latency_ms, rel=2e-3)
    assert means.busy.value == pytest.approx(busy, abs=0.006)


def test_variance_costs_a_sixth_to_a_quarter_at_the_knee_and_half_as_many_more_win_it_back() -> None:
    lost = [1 - bounds.closed(5, 55, number).busy.value for number in (11, 12)]
    assert lost == pytest.approx([0.206, 0.159], abs=0.001)
    enough = bounds.at_once(5, 55).value
    assert enough == 18
    assert 1.4 <= enough / bounds.knee(5, 55).value <= 1.7
    assert "about 20" in bounds.knee(5, 55).said()


def test_a_lane_for_a_hundredth() -> None:
    # (P - 1)/(P (1 - s)): three of four processes for 99 %, fifteen of sixteen.
    four, sixteen = bounds.hard_lane(4, 0.01), bounds.hard_lane(16, 0.01)
    assert four.value == pytest.approx(0.7576, abs=1e-4)
    assert sixteen.value == pytest.approx(0.947, abs=1e-3)
    assert "the others' processes are full" in four.said()
    assert "the lane's processes are full" in bounds.hard_lane(4, 0.5).said()
    assert bounds.hard_lane(4, 0.5, own=2).notes == ()


def test_littles_law_of_the_orders() -> None:
    # Three to four processes full at 450 orders an hour: 24 to 32 s each; at 6,000 an hour those hold 40 to 53 slots.
    assert [bounds.in_progress(450 / 3600, 1000 * stay).value for stay in (24, 32)] == pytest.approx([3, 4])
    assert [bounds.in_progress(6000 / 3600, 1000 * stay).value for stay in (24, 32)] == pytest.approx(
        [40, 53.3], abs=0.1
    )
    # 30 % of a core at that rate is 180 ms of CPU an order: 130 to 180 of them fill it.
    assert [bounds.knee(180, 1000 * stay - 180).value for stay in (24, 32)] == pytest.approx([133, 178], abs=1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: bounds.knee(-1, 5),
        lambda: bounds.knee(math.nan, 5),
        lambda: bounds.most(5, 5, 0),
        lambda: bounds.closed(5, 5, 10**9),
        lambda: bounds.at_once(5, 5, busy=1),
        lambda: bounds.hard_lane(4, 1.1),
        lambda: bounds.hard_lane(4, 0.1, own=5),
    ],
)
def test_what_cannot_be_is_refused_by_name_value_and_rule(wrong) -> None:
    with pytest.raises(PlanError, match=r"=.*, expected "):
        wrong()


@given(cpu_ms=st.floats(0.1, 500), io_ms=st.floats(0, 5000), number=st.integers(1, 200))
def test_every_answer_lies_within_the_bounds(cpu_ms: float, io_ms: float, number: int) -> None:
    means = bounds.closed(cpu_ms, io_ms, number)
    assert means.done.value <= bounds.most(cpu_ms, io_ms, number).value * (1 + 1e-9)
    assert means.latency.value >= bounds.least(cpu_ms, io_ms, number).value * (1 - 1e-9)
    assert bounds.in_progress(means.done.value, means.latency.value).value == pytest.approx(number)
