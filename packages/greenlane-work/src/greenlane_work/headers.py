"""What a dead order carries: why it is dead, where it came from, and each attempt. In headers, so that its body stays.

`greenlane-dead` is one JSON object, `greenlane-history` one JSON list of attempts, oldest first. A letter that is sent
again loses the first and keeps the second.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from greenlane_work.store.record import Record

__all__ = [
    "ATTEMPTS", "DEAD", "DELIVERIES", "DOUBT", "DUE", "EARLIER", "HISTORY", "LATER", "NOT_BEFORE", "ORDER", "RETURNS",
    "Death", "Tried", "count_of", "dead_queue", "history_of", "revived", "tried_of",
]  # fmt: skip

ORDER: Final = "greenlane-order"
ATTEMPTS: Final = "greenlane-attempts"
RETURNS: Final = "greenlane-returns"
#: Header: deliveries of which no broker and no store keeps count.
DELIVERIES: Final = "greenlane-deliveries"
#: Header: an earlier attempt may have had its effect. A store knows better, where there is one.
DOUBT: Final = "greenlane-doubt"
#: Header: from when it may be tried again, seconds since 1970. The broker may bring a copy back sooner.
NOT_BEFORE: Final = "greenlane-not-before"
#: Attempts of former lives: a store has counted them, and they no longer count.
EARLIER: Final = "greenlane-earlier"
DEAD: Final = "greenlane-dead"
HISTORY: Final = "greenlane-history"
#: Of a returned copy: when it belongs to its queue again, seconds since 1970.
DUE: Final = "greenlane-due"
#: Redis: what stands behind a queue's name where orders wait for that.
LATER: Final = ".later"
#: Of a history. As many as the store keeps of an order.
_MOST: Final = 16
#: Types of the fields that are no text.
_NUMBER: Final = (int, float)
_TYPES: Final[Mapping[str, Any]] = {
    "attempt": int,
    "began_s": _NUMBER,
    "ended_s": _NUMBER,
    "died_s": _NUMBER,
    "history": tuple,
}
#: No date is so far away: the year 2286.
_NO_TIME_S: Final = 1e10


@dataclass(frozen=True)
class Tried:
    """One attempt of a history."""

    attempt: int
    #: `done`, `failed` (no effect), `unknown`, `running`.
    outcome: str
    reason: str = ""
    #: Seconds since the epoch; 0 = not known.
    began_s: float = 0.0
    ended_s: float = 0.0
    #: The process that made it.
    owner: str = ""


@dataclass(frozen=True)
class Death:
    """Why, where and when an order was given up."""

    #: One of a few words: `attempts`, `deadline`, `malformed`, `returned` … the worker's.
    reason: str
    #: What was wrong, in a sentence.
    said: str
    #: The queue that it came from, and goes back to.
    queue: str
    #: Seconds since the epoch.
    died_s: float
    #: "" = the message had none.
    order: str = ""
    task: str = ""
    history: tuple[Tried, ...] = ()

    def headers(self) -> dict[str, str]:
        """Headers to add to the message."""
        said = {name: value for name, value in asdict(self).items() if name != "history"}
        history = [asdict(tried) for tried in self.history[-_MOST:]]
        return {DEAD: json.dumps(said), HISTORY: json.dumps(history)}

    @classmethod
    def of(cls, headers: Mapping[str, Any]) -> Death | None:
        """What a message's headers say; None = it is not our dead letter, or damaged."""
        try:
            said = json.loads(headers[DEAD])
            death = cls(**{**said, "history": history_of(headers.get(HISTORY))})
        except (KeyError, TypeError, ValueError, RecursionError):
            return None
        return death if _is_of_its_types(death) and abs(death.died_s) < _NO_TIME_S else None


def dead_queue(queue: str) -> str:
    """Where the dead letters of a queue are."""
    return f"{queue}.dead"


def tried_of(record: Record | None) -> tuple[Tried, ...]:
    """An order's history as the store has it."""
    attempts: Iterable[Any] = record.attempts if record is not None else ()
    return tuple(
        Tried(one.number, one.outcome.value, one.reason, one.began_s, one.ended_s, one.owner) for one in attempts
    )


def history_of(said: object) -> tuple[Tried, ...]:
    """A history as a header has it, the newest of it; what is none counts as empty."""
    try:
        history = tuple(Tried(**tried) for tried in json.loads(said)) if isinstance(said, str) else ()
    except (TypeError, ValueError, RecursionError):
        return ()
    return history[-_MOST:] if all(map(_is_of_its_types, history)) else ()


def _is_of_its_types(said: Death | Tried) -> bool:
    """Whether what came out of JSON has the fields' types, which a dataclass does not ask."""
    return all(isinstance(getattr(said, field.name), _TYPES.get(field.name, str)) for field in fields(said))


def revived(headers: Mapping[str, Any]) -> dict[str, Any]:
    """Headers of a dead letter that is sent again: it has all its attempts before it, and its history behind it."""
    gone = (DEAD, ATTEMPTS, DELIVERIES, RETURNS, NOT_BEFORE)
    # The broker's own notes on deaths and deliveries would be taken for the new life's.
    kept = {name: value for name, value in headers.items() if name not in gone and not name.startswith("x-")}
    if kept.get("retries"):
        kept["retries"] = 0
    earlier = count_of(headers.get(EARLIER)) + count_of(headers.get(ATTEMPTS))
    return {**kept, EARLIER: earlier} if earlier else kept


def count_of(value: object) -> int:
    """A count as a header has it; what is none counts as 0."""
    return value if isinstance(value, int) and value > 0 else 0
