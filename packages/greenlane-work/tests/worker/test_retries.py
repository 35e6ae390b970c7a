"""Waits between attempts, and the budget for all retries."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.worker.site import Site, eventually

from greenlane_work.worker.retries import RetryBudget, RetryDelay
from tests.fixtures import StartProcess

NS = 1_000_000_000


@given(st.integers(1, 10_000), st.floats(0, 1, exclude_max=True))
def test_a_wait_lies_under_a_bound_that_doubles_up_to_the_most(attempt: int, chance: float) -> None:
    backoff = RetryDelay(first_s=0.5, most_s=60)
    assert 0 <= backoff.delay_s(attempt, chance) <= backoff.bound_s(attempt) <= 60


def test_bounds_double() -> None:
    assert [RetryDelay(0.5, 60).bound_s(attempt) for attempt in (1, 2, 3, 7, 8, 9)] == [0.5, 1, 2, 32, 60, 60]


def test_attempts_end_by_number_or_by_the_deadline() -> None:
    assert [RetryDelay.spent(attempt, 3, 0, 0) for attempt in (1, 2, 3)] == [False, False, True]
    assert [RetryDelay.spent(1, 3, now, 10) for now in (9, 10)] == [False, True]
    assert not RetryDelay.spent(1_000_000, 0, 5, 0)


def test_an_upstream_that_always_fails_gets_a_retry_a_second_however_many_orders_ask() -> None:
    budget = RetryBudget(per_s=1, most=10)
    at = sorted(budget.take(NS) for _ in range(1000))
    assert at[:10] == [NS] * 10
    assert at[10:] == [NS * (2 + number) for number in range(990)]


def test_each_successful_call_pays_for_a_share_of_a_retry() -> None:
    budget = RetryBudget(share=0.2, per_s=1e-9, most=10)
    now, at_once = NS, 0
    for _ in range(10_000):
        now += NS // 1000
        budget.succeeded(now)
        if budget.left >= 1:
            at_once += budget.take(now) == now
    assert 2000 <= at_once <= 2011


def test_a_clock_that_goes_back_gives_nothing() -> None:
    budget = RetryBudget(most=1)
    assert budget.take(10 * NS) == 10 * NS
    assert budget.take(1 * NS) == 2 * NS
    assert budget.take(10 * NS) == 12 * NS


@pytest.mark.system
@pytest.mark.slow
def test_results_that_cannot_be_written_leave_the_budget_to_calls(
    tmp_path: Path, redis_url: str, start_process: StartProcess
) -> None:
    site = Site(tmp_path, redis_url, start_process, RESULTS=redis_url)
    worker = site.worker("--task-attempts", "3")
    names = [f"o{number}" for number in range(30)]
    site.publish("unstored", *names)
    # Sixty writings more: as many calls would wait for the budget for most of a minute.
    eventually(lambda: worker.output.count("goes to the dead letters") == len(names), timeout_s=15)
    site.publish("our_retries", "flaky", failures=2)
    eventually(lambda: "flaky" in site.ended(), timeout_s=15)
    assert [site.written()[f"end {name}"] for name in (*names, "flaky")] == [1] * 31
