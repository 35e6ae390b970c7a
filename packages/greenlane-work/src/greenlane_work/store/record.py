"""What is kept of an order: its attempts, how each ended, and the result. One form of bytes for every store.

    {"count": 2, "doubts": 0, "done": true, "attempts": [[1, "a:7", "5f…", 1.0, 2.5, "unknown", "read timed out"], …]}
    <the result, as the task gave it>

One line of JSON, then the result as it is: to be read by people, and by any program.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, replace
from typing import Final

__all__ = ["MOST_ATTEMPTS", "Attempt", "Outcome", "Record", "State", "NotARecord", "decoded", "encoded"]

#: Attempts of which a record knows more than their number. Arbitrary: an order that fails this often is poison, and a
#: record that grows with each attempt would be too.
MOST_ATTEMPTS: Final = 16
#: Of them, how many are the oldest: how it began explains more than what was in the middle.
_FIRST: Final = 4


class State(enum.Enum):
    """What is known of an order."""

    #: Not begun, or only by attempts that certainly had no effect: it may be called.
    NEW = "new"
    #: A living worker runs it.
    RUNNING = "running"
    #: It has had its effect, and here is the result.
    DONE = "done"
    #: It was begun, and its end is unknown. Ask the upstream, or send it again with the same key.
    UNKNOWN = "unknown"


class Outcome(enum.Enum):
    """How one attempt ended."""

    RUNNING = "running"
    DONE = "done"
    #: It certainly had no effect.
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at an order."""

    #: From 1.
    number: int
    #: The process that made it.
    owner: str
    #: Of this attempt alone: a question that is asked again after a lost answer is known by it.
    token: str
    #: Seconds since the epoch, by the clock of its maker.
    began_s: float
    #: Likewise; 0 = it goes on, or the time is unknown.
    ended_s: float
    outcome: Outcome
    #: Why it failed, or why its end is unknown; "" = no reason.
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One order."""

    #: Oldest first; of more than 16 the middle is missing.
    attempts: tuple[Attempt, ...] = ()
    #: All attempts, those that are missing too.
    count: int = 0
    #: How many of the missing ones have an unknown end.
    doubts: int = 0
    #: It has had its effect.
    done: bool = False
    #: What the first attempt that was done gave.
    result: bytes = b""

    @property
    def state(self) -> State:
        """What is known, as far as the record says: a RUNNING one may belong to a process that is gone."""
        if self.done:
            return State.DONE
        if self.attempts and self.attempts[-1].outcome is Outcome.RUNNING:
            return State.RUNNING
        return State.UNKNOWN if self.doubtful else State.NEW

    @property
    def doubtful(self) -> bool:
        """Whether an attempt has an unknown end."""
        return self.doubts > 0 or any(attempt.outcome is Outcome.UNKNOWN for attempt in self.attempts)

    def of(self, token: str) -> Attempt | None:
        """The attempt with this token."""
        return next((attempt for attempt in reversed(self.attempts) if attempt.token == token), None)

    def begun(self, owner: str, token: str, now_s: float) -> Record:
        """The record with one more attempt that runs."""
        attempt = Attempt(self.count + 1, owner, token, now_s, 0.0, Outcome.RUNNING)
        return replace(self, attempts=(*self.attempts, attempt), count=attempt.number)._bounded()

    def ended(self, token: str, now_s: float, outcome: Outcome, reason: str) -> Record:
        """The record with that attempt ended."""
        attempts = (
            replace(attempt, ended_s=now_s, outcome=outcome, reason=reason) if attempt.token == token else attempt
            for attempt in self.attempts
        )
        return replace(self, attempts=tuple(attempts))

    def withdrawn(self, token: str) -> Record:
        """The record without an attempt that was begun and never made, if it is the last and still runs."""
        last = self.attempts[-1] if self.attempts else None
        if last is None or last.token != token or last.outcome is not Outcome.RUNNING:
            return self
        return replace(self, attempts=self.attempts[:-1], count=self.count - 1)

    def _bounded(self) -> Record:
        over = len(self.attempts) - MOST_ATTEMPTS
        if over <= 0:
            return self
        missing = self.attempts[_FIRST : _FIRST + over]
        doubts = self.doubts + sum(attempt.outcome is Outcome.UNKNOWN for attempt in missing)
        return replace(self, attempts=self.attempts[:_FIRST] + self.attempts[_FIRST + over :], doubts=doubts)


class NotARecord(ValueError):
    """Bytes that are no record."""


def encoded(record: Record) -> bytes:
    """Give a record's bytes."""
    attempts = [
        (one.number, one.owner, one.token, one.began_s, one.ended_s, one.outcome.value, one.reason)
        for one in record.attempts
    ]
    head = {"count": record.count, "doubts": record.doubts, "done": record.done, "attempts": attempts}
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + record.result


def decoded(raw: bytes) -> Record:
    """Give the record of these bytes. Raises NotARecord."""
    head, newline, result = bytes(raw).partition(b"\n")
    try:
        if not newline:
            raise ValueError("no line of JSON")
        said = json.loads(head)
        attempts = tuple(
            Attempt(int(number), str(owner), str(token), float(began), float(ended), Outcome(outcome), str(reason))
            for number, owner, token, began, ended, outcome, reason in said["attempts"]
        )
        return Record(attempts, int(said["count"]), int(said["doubts"]), bool(said["done"]), result)
    except (ValueError, KeyError, TypeError) as error:
        raise NotARecord(str(error)) from None
