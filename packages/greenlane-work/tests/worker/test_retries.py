"""Waits between attempts, and the budget for all retries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from greenlane_work.worker.retries import RetryBudget, RetryDelay

NS = 1_000_000_000


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_wait_lies_under_a_bound_that_doubles_up_to_the_most(attempt: int, chance: float) -> None:
    backoff = RetryDelay(first_s=0.5, most_s=60)
    assert 0 <= backoff.delay_s(attempt, chance) <= backoff.bound_s(attempt) <= 60


def test_bounds_double() -> None:
    assert [RetryDelay(0.5, 60).bound_s(attempt) for attempt in (1, 2, 3, 7, 8, 9)] == [0.5, 1, 2, 32, 60, 60]


def test_attempts_end_by_number_or_by_the_deadline() -> None:
    backoff = RetryDelay(attempts=3)
    assert [backoff.spent(attempt, 0, 0) for attempt in (1, 2, 3)] == [False, False, True]
    assert [backoff.spent(1, now, 10) for now in (9, 10)] == [False, True]
    assert not RetryDelay(attempts=0).spent(1_000_000, 5, 0)


def test_an_upstream_that_always_fails_is_retried_for_a_share_of_its_orders() -> None:
    budget = RetryBudget(share=0.2, least_per_s=1e-9, most=10)
    now, retried = NS, 0
    for _ in range(10_000):
        now += NS // 1000
        budget.attempted(now)
        retried += sum(budget.take(now) for _ in range(5))
    assert 2000 <= retried <= 2011


def test_without_orders_there_are_a_few_retries_a_second() -> None:
    budget = RetryBudget(share=0.2, least_per_s=5, most=1)
    now, retried = NS, 0
    assert budget.take(now)
    for _ in range(10_000):
        assert budget.ready_ns(now) > now
        now = budget.ready_ns(now)
        assert budget.take(now)
        retried += 1
    assert abs((now - NS) / NS - retried / 5) < 0.1


def test_a_clock_that_goes_back_gives_nothing() -> None:
    budget = RetryBudget(most=1)
    assert budget.take(10 * NS)
    assert not budget.take(1 * NS)
    assert not budget.take(10 * NS)
