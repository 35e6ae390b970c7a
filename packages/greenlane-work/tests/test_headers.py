"""What a dead order carries in its headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenlane_work.headers import (
    ATTEMPTS,
    DEAD,
    EARLIER,
    HISTORY,
    NOT_BEFORE,
    ORDER,
    Death,
    Tried,
    dead_queue,
    history_of,
    revived,
    tried_of,
)
from greenlane_work.store import Attempt, Outcome, Record

TRIED = st.builds(Tried, st.integers(1, 99), st.sampled_from(["failed", "unknown"]), st.text(), st.just(1.5))


@given(st.text(), st.text(), st.lists(TRIED, max_size=16))
def test_a_death_is_read_from_headers_as_it_was_written(reason: str, order: str, history: list[Tried]) -> None:
    death = Death(reason, "said", "orders", 12.5, order, "pos.send", tuple(history))
    assert Death.of({"other": 1, **death.headers()}) == death


def test_a_history_keeps_its_latest_attempts() -> None:
    history = tuple(Tried(number, "failed") for number in range(1, 101))
    found = Death.of(Death("attempts", "", "orders", 1.0, history=history).headers())
    assert found is not None
    assert [tried.attempt for tried in found.history] == list(range(85, 101))


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {DEAD: "no"},
        {DEAD: "[]"},
        {DEAD: "{}"},
        {DEAD: None},
        {DEAD: '{"x": 1}'},
        {DEAD: "[" * 100_000},
        {DEAD: '{"reason": "deadline", "said": "", "queue": "orders", "died_s": "yesterday"}'},
        {DEAD: '{"reason": "deadline", "said": "", "queue": "orders", "died_s": 1e300}'},
        {DEAD: '{"reason": "deadline", "said": "", "queue": 7, "died_s": 1.0}'},
    ],
)
def test_what_is_no_dead_letter_is_none(headers: dict[str, object]) -> None:
    assert Death.of(headers) is None


@pytest.mark.parametrize("history", ["{", "[1]", "[" * 100_000, '[{"attempt": "two", "outcome": "failed"}]', 7])
def test_a_history_that_is_damaged_is_empty(history: object) -> None:
    assert history_of(history) == ()


def test_a_letter_that_is_sent_again_begins_anew_and_keeps_its_history_and_order() -> None:
    counted = {ATTEMPTS: 10, NOT_BEFORE: 1.8e9, "x-delivery-count": 3}
    headers = {ORDER: "4711", **counted, **Death("attempts", "", "orders", 1.0).headers()}
    assert revived(headers) == {ORDER: "4711", HISTORY: "[]", EARLIER: 10}
    # A second death: the store has counted both lives. The task's own retries start over, too.
    again = {**revived(headers), ATTEMPTS: 3, "retries": 2}
    assert revived(again) == {ORDER: "4711", HISTORY: "[]", EARLIER: 13, "retries": 0}


def test_the_store_s_attempts_become_a_history() -> None:
    attempt = Attempt(1, "a", "t", 1.0, 2.0, Outcome.UNKNOWN, "timed out")
    assert tried_of(Record((attempt,), 1)) == (Tried(1, "unknown", "timed out", 1.0, 2.0, "a"),)
    assert tried_of(None) == ()


def test_dead_letters_lie_beside_their_queue() -> None:
    assert dead_queue("orders") == "orders.dead"
