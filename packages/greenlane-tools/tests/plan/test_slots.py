"""Slots for orders that mostly wait: Little's law, some more, and what one hanging upstream does to them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenlane.errors import PlanError
from greenlane_tools.plan.slots import bulkhead, slots


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
