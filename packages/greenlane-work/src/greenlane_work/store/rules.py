"""What each question and each ending does to an order's record: pure, and the same in every store.

A store reads the records that a batch of operations names, asks `decide`, and writes what has changed, all in one
transaction. Every operation may be asked again after a lost answer: the attempt's token tells.

What happened outside counts more than the lease: an attempt that lost its lease and then says `done` has
had its effect, so the order is done; one that says `failed` takes back the doubt about itself and nothing else.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, MutableMapping
from dataclasses import dataclass, replace
from typing import Final

from greenlane.errors import StoreRefused
from greenlane_work.store.record import Outcome, Record, State

__all__ = ["Answer", "Kind", "Operation", "Outcomes", "decide"]

LOST: Final = "its process ended or lost its lease"


class Kind(enum.Enum):
    """What is asked or said."""

    BEGIN = "begin"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    ABSENT = "absent"
    WITHDRAW = "withdraw"


@dataclass(frozen=True, slots=True)
class Operation:
    """One question or ending."""

    kind: Kind
    key: str
    owner: str
    #: Of the attempt; `begin` gives it its own.
    token: str
    result: bytes = b""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What is known of an order after an operation.

    After `begin`: NEW and UNKNOWN mean that the order is the caller's now; RUNNING and DONE that it is not.
    """

    state: State
    #: Of an order that is DONE.
    result: bytes = b""
    #: Number of the attempt that was begun, or that has it; from 1.
    attempt: int = 0
    #: Its owner, where it is RUNNING.
    owner: str = ""
    #: RUNNING: seconds until it may be begun if its process is gone by then.
    wait_s: float = 0.0
    #: Of the attempt, where the order is the caller's: its later reports are about this one.
    token: str = ""


#: Answers in the order of the operations; an error where one record cannot be read.
Outcomes = list["Answer | StoreRefused"]
#: Seconds that an owner's lease has left; 0 = ended, or there is none.
Alive = Callable[[str], float]
Found = Record | StoreRefused | None


def decide(
    operations: Iterable[Operation], records: MutableMapping[str, Found], now_s: float, alive: Alive
) -> Outcomes:
    """Apply operations in their order; changes `records` in place.

    Args:
        operations: what is asked.
        records: by key; None = there is none, an error = it cannot be read, and each operation on it gets that.
        now_s: seconds since the epoch.
        alive: asked for owners of running orders, except the caller.
    """
    outcomes: Outcomes = []
    for operation in operations:
        found = records[operation.key]
        if isinstance(found, StoreRefused):
            outcomes.append(found)
            continue
        record, answer = _RULES[operation.kind](found or Record(), operation, now_s, alive)
        outcomes.append(answer)
        if found is not None or record.count:  # A report on an order that was not begun leaves no trace.
            records[operation.key] = record
    return outcomes


def _begin(record: Record, asked: Operation, now_s: float, alive: Alive) -> tuple[Record, Answer]:
    if record.done:
        return record, _said(record)
    last = record.attempts[-1] if record.attempts else None
    if last is not None and last.outcome is Outcome.RUNNING:
        if last.token == asked.token:
            return record, _claimed(record)
        left_s = alive(last.owner)
        if left_s > 0:
            return record, Answer(State.RUNNING, attempt=last.number, owner=last.owner, wait_s=left_s)
        record = record.ended(last.token, 0.0, Outcome.UNKNOWN, LOST)
    record = record.begun(asked.owner, asked.token, now_s)
    return record, _claimed(record)


def _done(record: Record, said: Operation, now_s: float, _: Alive) -> tuple[Record, Answer]:
    if record.of(said.token) is None:  # a store that forgot, or more attempts than a record holds
        record = record.begun(said.owner, said.token, now_s)
    record = record.ended(said.token, now_s, Outcome.DONE, said.reason)
    if not record.done:
        record = replace(record, done=True, result=said.result)
    return record, _said(record)


def _ended(record: Record, said: Operation, now_s: float, _: Alive) -> tuple[Record, Answer]:
    attempt, outcome = record.of(said.token), _OUTCOMES[said.kind]
    # What was known stays, except that the attempt's maker may take back its doubt.
    unsettled = (Outcome.RUNNING, Outcome.UNKNOWN) if outcome is not Outcome.UNKNOWN else (Outcome.RUNNING,)
    if attempt is not None and attempt.outcome in unsettled:
        record = record.ended(said.token, now_s, outcome, said.reason)
    return record, _said(record)


def _withdrawn(record: Record, said: Operation, _now_s: float, _: Alive) -> tuple[Record, Answer]:
    """The caller had left before the answer: nothing was called."""
    record = record.withdrawn(said.token)
    return record, _said(record)


def _absent(record: Record, said: Operation, now_s: float, _: Alive) -> tuple[Record, Answer]:
    """The upstream has never seen it: no attempt so far had an effect."""
    for attempt in record.attempts:
        if attempt.outcome is Outcome.UNKNOWN:
            reason = f"{attempt.reason}; the upstream was asked and has not seen it"
            record = record.ended(attempt.token, attempt.ended_s, Outcome.FAILED, reason)
    return replace(record, doubts=0), _said(replace(record, doubts=0))


def _claimed(record: Record) -> Answer:
    last = record.attempts[-1]
    state = State.UNKNOWN if record.doubtful else State.NEW
    return Answer(state, attempt=last.number, owner=last.owner, token=last.token)


def _said(record: Record) -> Answer:
    last = record.attempts[-1] if record.attempts else None
    owner, number = (last.owner, last.number) if last is not None else ("", 0)
    return Answer(record.state, result=record.result, attempt=number, owner=owner)


_OUTCOMES: Final = {Kind.FAILED: Outcome.FAILED, Kind.UNKNOWN: Outcome.UNKNOWN}
_RULES: Final = {
    Kind.BEGIN: _begin,
    Kind.DONE: _done,
    Kind.FAILED: _ended,
    Kind.UNKNOWN: _ended,
    Kind.WITHDRAW: _withdrawn,
    Kind.ABSENT: _absent,
}
