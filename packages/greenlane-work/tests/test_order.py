"""What a message says of an order, and what its copy must say."""

from __future__ import annotations

import time

import pytest

from greenlane_work.order import ATTEMPTS, DEADLINE, HISTORY, ORDER, RETURNS, Order, Run, current, running


def order() -> Order:
    return Order(1, id="o-1", key="taco", name="send", size=9)


def test_a_copy_says_what_happened_before() -> None:
    first = order()
    first.attempts, first.returns = 2, 1
    first.note("failed", "x" * 10_000)
    second = order()
    second.read(first.headers())
    assert (second.attempts, second.returns, second.history) == (2, 1, first.history)
    assert len(second.history[0].reason) == 500
    assert first.headers()[ORDER] == "o-1"


def test_a_copy_that_comes_back_sooner_than_its_next_attempt_may_begin_knows_when_it_may() -> None:
    first, second = order(), order()
    first.not_before_at = time.time() + 100
    second.read(first.headers())
    assert 90 < second.begins_from_ns(7) / 1e9 <= 100.001
    first.not_before_at = time.time() - 100
    second.read(first.headers())
    assert second.begins_from_ns(7) == 0


def test_a_history_does_not_grow_without_bound() -> None:
    noted = order()
    for number in range(100):
        noted.attempts = number
        noted.note("failed")
    assert [tried.attempt for tried in noted.history] == list(range(84, 100))


def test_headers_that_say_nothing_sensible_count_as_none() -> None:
    read = order()
    read.read({ATTEMPTS: "many", RETURNS: -3, DEADLINE: "soon", HISTORY: "{"})
    assert (read.attempts, read.returns, read.deadline_at, read.history) == (0, 0, 0.0, ())
    assert read.remaining_s() is None


@pytest.mark.parametrize("deadline", ["inf", "nan", 1e300, pytest.param(10**400, id="huge"), 1_700_000_000_000])
def test_a_deadline_that_no_clock_reaches_is_none(deadline: object) -> None:
    read = order()
    read.read({DEADLINE: deadline})
    assert read.remaining_s() is None


def test_a_deadline_is_seconds_since_1970_as_number_or_text() -> None:
    read = order()
    read.read({DEADLINE: str(time.time() + 100)})
    remaining_s = read.remaining_s()
    assert remaining_s is not None
    assert 90 < remaining_s <= 100


def test_a_task_sees_its_own_order_only_while_it_runs() -> None:
    assert current() is None
    mine = order()
    mine.attempts = 3
    token = running.set(Run(mine))
    seen = current()
    running.reset(token)
    assert seen is not None
    assert (seen.id, seen.key, seen.attempt) == ("o-1", "taco", 3)
    assert current() is None
