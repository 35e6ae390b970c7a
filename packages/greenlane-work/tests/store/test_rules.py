"""The rules of an order's record, by cases and against histories that Hypothesis makes up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenlane.errors import StoreRefused
from greenlane_work.store import Answer, Kind, Operation, Outcome, Record, State
from greenlane_work.store.record import MOST_ATTEMPTS, NotARecord, decoded, encoded
from greenlane_work.store.rules import Found, decide


class Ledger:
    """One order and a set of owners that live: what a store is, without one."""

    def __init__(self) -> None:
        self.records: dict[str, Found] = {"k": None}
        self.alive: set[str] = set()

    def say(self, kind: Kind, owner: str, token: str, result: bytes = b"", reason: str = "") -> Answer:
        self.alive.add(owner)
        operation = Operation(kind, "k", owner, token, result, reason)
        answer = decide([operation], self.records, 1.0, lambda name: 9.0 if name in self.alive else 0.0)[0]
        assert isinstance(answer, Answer)
        return answer

    @property
    def record(self) -> Record:
        found = self.records["k"]
        assert isinstance(found, Record)
        return found


def test_an_order_is_begun_once_and_its_result_kept() -> None:
    order = Ledger()
    assert order.say(Kind.BEGIN, "a", "1").state is State.NEW
    assert order.say(Kind.BEGIN, "b", "2") == Answer(State.RUNNING, attempt=1, owner="a", wait_s=9.0)
    order.say(Kind.DONE, "a", "1", b"42")
    assert order.say(Kind.BEGIN, "b", "3").state is State.DONE
    assert order.say(Kind.BEGIN, "b", "3").result == b"42"


def test_a_question_that_is_asked_again_gets_the_same_answer() -> None:
    order = Ledger()
    assert order.say(Kind.BEGIN, "a", "1") == order.say(Kind.BEGIN, "a", "1")
    assert order.record.count == 1
    assert order.say(Kind.DONE, "a", "1", b"x") == order.say(Kind.DONE, "a", "1", b"x")


def test_what_a_process_that_is_gone_had_begun_is_unknown_to_one_that_asks_and_runs_to_the_next() -> None:
    order = Ledger()
    order.say(Kind.BEGIN, "a", "1")
    order.alive.discard("a")
    assert order.say(Kind.BEGIN, "b", "2").state is State.UNKNOWN
    assert order.say(Kind.BEGIN, "c", "3").state is State.RUNNING


def test_an_order_that_failed_without_effect_is_new_again() -> None:
    order = Ledger()
    order.say(Kind.BEGIN, "a", "1")
    assert order.say(Kind.FAILED, "a", "1", reason="refused").state is State.NEW
    assert order.say(Kind.BEGIN, "a", "2") == Answer(State.NEW, attempt=2, owner="a", token="2")


def test_a_failure_after_an_unknown_outcome_leaves_it_unknown() -> None:
    order = Ledger()
    order.say(Kind.BEGIN, "a", "1")
    order.say(Kind.UNKNOWN, "a", "1")
    assert order.say(Kind.BEGIN, "a", "2").state is State.UNKNOWN
    assert order.say(Kind.FAILED, "a", "2").state is State.UNKNOWN


def test_an_upstream_that_has_not_seen_it_takes_the_doubt_away() -> None:
    order = Ledger()
    order.say(Kind.BEGIN, "a", "1")
    order.say(Kind.UNKNOWN, "a", "1", reason="timed out")
    order.say(Kind.BEGIN, "a", "2")
    order.say(Kind.ABSENT, "a", "2")
    assert order.say(Kind.FAILED, "a", "2").state is State.NEW
    assert order.record.attempts[0].reason.startswith("timed out; the upstream was asked")


def test_done_counts_from_whoever_says_it_and_the_first_result_stays() -> None:
    order = Ledger()
    order.say(Kind.BEGIN, "a", "1")
    order.alive.discard("a")
    order.say(Kind.BEGIN, "b", "2")
    assert order.say(Kind.DONE, "a", "1", b"first").state is State.DONE
    assert order.say(Kind.DONE, "b", "2", b"second").result == b"first"
    assert [attempt.outcome for attempt in order.record.attempts] == [Outcome.DONE, Outcome.DONE]


def test_nothing_said_later_takes_done_back() -> None:
    order = Ledger()
    order.say(Kind.BEGIN, "a", "1")
    order.say(Kind.DONE, "a", "1")
    for kind in (Kind.FAILED, Kind.UNKNOWN, Kind.WITHDRAW, Kind.ABSENT):
        assert order.say(kind, "a", "1").state is State.DONE


def test_a_withdrawn_question_leaves_the_order_as_it_was() -> None:
    order = Ledger()
    order.say(Kind.BEGIN, "a", "1")
    assert order.say(Kind.WITHDRAW, "a", "1") == Answer(State.NEW)
    assert order.say(Kind.BEGIN, "a", "2").attempt == 1
    order.say(Kind.UNKNOWN, "a", "2")
    order.say(Kind.BEGIN, "a", "3")
    assert order.say(Kind.WITHDRAW, "a", "3").state is State.UNKNOWN


def test_a_withdrawal_of_what_was_never_recorded_leaves_no_trace() -> None:
    order = Ledger()
    order.say(Kind.WITHDRAW, "a", "1")
    assert order.records["k"] is None


def test_a_record_that_cannot_be_read_stops_its_own_order_only() -> None:
    damaged = StoreRefused("read an order's record")
    records: dict[str, Found] = {"k": damaged, "l": None}
    asked = [Operation(Kind.BEGIN, key, "a", key) for key in ("k", "l")]
    assert decide(asked, records, 1.0, lambda _: 0.0) == [damaged, Answer(State.NEW, attempt=1, owner="a", token="l")]


def test_a_record_does_not_grow_and_forgets_no_doubt() -> None:
    order = Ledger()
    order.say(Kind.BEGIN, "a", "0")
    for number in range(100):
        order.say(Kind.UNKNOWN if number == 7 else Kind.FAILED, "a", str(number))
        order.say(Kind.BEGIN, "a", str(number + 1))
    assert len(order.record.attempts) == MOST_ATTEMPTS
    assert order.record.count == 101
    assert order.say(Kind.FAILED, "a", "100").state is State.UNKNOWN


@pytest.mark.parametrize("raw", [b"", b"{}", b"nonsense\n", b"{}\n", b'{"count": 1, "attempts": [[1]]}\n', b"\xff\n"])
def test_bytes_that_are_no_record_are_refused(raw: bytes) -> None:
    with pytest.raises(NotARecord):
        decoded(raw)


steps = st.lists(
    st.tuples(
        st.sampled_from([*Kind, "dies", "calls"]), st.sampled_from("abc"), st.binary(max_size=4), st.text(max_size=4)
    ),
    max_size=40,
)


@given(steps)
def test_no_history_lets_an_effect_be_forgotten_or_called_again_unasked(history: list[tuple]) -> None:
    """Owners begin, call, die and end as they like; who is told NEW finds that no call was ever made in doubt."""
    order = Ledger()
    mine: dict[str, str] = {}  # owner -> token of what it believes to run
    in_doubt: set[str] = set()  # tokens that were called and never said how it ended
    done = False
    for number, (step, owner, result, reason) in enumerate(history):
        if step == "dies":
            order.alive.discard(owner)
            mine.pop(owner, None)
        elif step == "calls" and owner in mine:
            in_doubt.add(mine[owner])
        elif step is Kind.BEGIN and owner not in mine:
            answer = order.say(Kind.BEGIN, owner, str(number))
            assert (answer.state is State.DONE) == done
            if answer.state is State.NEW:
                assert not in_doubt
            if answer.state in (State.NEW, State.UNKNOWN):
                mine[owner] = str(number)
        elif step in (Kind.DONE, Kind.UNKNOWN) and owner in mine:
            done = done or step is Kind.DONE
            order.say(step, owner, mine[owner], result, reason)
            if step is Kind.UNKNOWN:
                in_doubt.add(mine[owner])
            del mine[owner]
        elif step in (Kind.FAILED, Kind.WITHDRAW) and owner in mine and mine[owner] not in in_doubt:
            order.say(step, owner, mine.pop(owner), result, reason)
        if isinstance(order.records["k"], Record):
            assert decoded(encoded(order.record)) == order.record
            assert order.record.done == done
