"""One order in a worker: what the message says of it, and how far it has come here."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import json
import os
import pickle
import platform
import time
from collections.abc import Mapping
from contextvars import ContextVar
from threading import RLock
from typing import Any, Final

from greenlane_work.headers import (
    ATTEMPTS,
    DELIVERIES,
    DOUBT,
    EARLIER,
    HISTORY,
    NOT_BEFORE,
    ORDER,
    RETURNS,
    Tried,
    count_of,
    history_of,
)

__all__ = [
    # headers of a message
    "ATTEMPTS",
    "DEADLINE",
    "DELIVERIES",
    "HISTORY",
    "ORDER",
    "RETURNS",
    # an order
    "Identity",
    "Order",
    "Stage",
    "running",
    "given_up",
    "run_generation",
    # its result
    "packed",
    "unpacked",
    # for tasks
    "Current",
    "NotSent",
    "current",
]

#: Header of a message: when the order is due, seconds since 1970. Beside it stand the business's name of the order, how
#: often it was begun, how often it was handed back for want of room, and what happened to it.
DEADLINE: Final = "greenlane-deadline"


#: An order's history keeps this many entries, the newest, so that a message does not grow without bound.
_HISTORY_MOST: Final = 16
_REASON_CHARACTERS: Final = 500


#: A pickle begins so, and no JSON does.
_PICKLE: Final = b"\x80"
#: No date is so far away: milliseconds, infinity. The year 2286; in nanoseconds it still fits 64 bits.
_NO_TIME_S: Final = 1e10

#: Task, task id, number of Celery's own retries, and of its replacements.
Identity = tuple[str, str, int, int]


class NotSent(Exception):
    """Raise it in a task to say that nothing of this attempt has reached the upstream."""


class Stage(enum.Enum):
    """Where an order is in this worker."""

    #: Waits for a place at its key, or for the time of its next attempt; holds no thread.
    PARKED = "parked"
    RUNNING = "running"
    #: A copy is on its way to the broker; the original is acknowledged once the broker has confirmed it.
    LEAVING = "leaving"
    ENDED = "ended"


@dataclasses.dataclass(slots=True, eq=False)
class Order:
    """One order. Written by the owner of the channel only, except what is marked.

    Args:
        number: unique in the process.
        size: of the message's body, in bytes.
    """

    number: int
    _: dataclasses.KW_ONLY
    id: str
    key: str
    name: str
    size: int
    stage: Stage = Stage.PARKED
    # The message's identity: the same again is the same delivery, after a lost connection or from a second copy.
    identity: Identity = ("", "", 0, 0)
    # The same and the counts that its headers had: a copy of the message has one more of something.
    came: tuple[object, ...] = ()
    # The broker says that somebody had this message before.
    redelivered: bool = False
    # The host's: what it runs, and how it reports to the broker.
    request: Any = None
    delivery: Any = None
    # An earlier attempt may have had its effect.
    in_doubt: bool = False
    # Whose breakers the running attempt is a probe of: its key's, its provider's (with a slash behind).
    probes: list[str] = dataclasses.field(default_factory=list)
    # How its provider let it through, where keys have one; None = it has not yet.
    passed: Any = None
    # Further deliveries of the same message.
    copies: list[Any] = dataclasses.field(default_factory=list)
    # Begun so far, here and elsewhere.
    attempts: int = 0
    returns: int = 0
    deliveries: int = 0
    # Begun before it was a dead letter and sent again: the store counts on, the bound does not.
    earlier: int = 0
    history: tuple[Tried, ...] = ()
    # When the latest attempt began, seconds since 1970; 0 = not begun here.
    began_s: float = 0.0
    # Of the store, for the latest attempt; "" = there is none.
    token: str = ""
    # What the store said to the next run, which takes it out: one entry at most.
    answers: list[Any] = dataclasses.field(default_factory=list)
    # What the store is to be told of the call when the run has ended: `Kind`, and what goes with it. Written by the
    # run.
    untold: tuple[Any, dict[str, Any]] | None = None
    # How often in a row the store said that it runs elsewhere.
    waits: int = 0
    # Seconds since 1970; 0 = none.
    deadline_at: float = 0.0
    # Celery's `expires`: not begun after it. Seconds since 1970; 0 = none.
    expires_at: float = 0.0
    # From when its next attempt may begin, wherever that is. Seconds since 1970; 0 = none.
    not_before_at: float = 0.0
    # Monotonic; `due_ns`: when the running attempt is to end, 0 = no limit.
    arrival_ns: int = 0
    # When this process received it, monotonic.
    received_ns: int = 0
    due_ns: int = 0
    not_before_ns: int = 0
    # When the running attempt left the parked ones, monotonic, and what had kept it there: (what, ns).
    begun_ns: int = 0
    held: tuple[tuple[str, int], ...] = ()
    # Counts this order's runs in this process: what an abandoned one says later is not heard.
    generation: int = 0
    # Whatever interrupts a run needs: set by the run, under `guard`; None = nothing runs.
    runner: Any = None
    guard: Any = None
    timers: list[Any] = dataclasses.field(default_factory=list)
    # (result, token that the store has not been told of yet) of the task's function once it has ended well: what
    # follows it (the next of a chain) may still fail.
    kept: tuple[Any, str] | None = None
    # How often what follows it, or its result, could not be published or written.
    writings: int = 0
    # What follows it was published: only its result is to be written.
    followed: bool = False
    # And so was its result: what the run does now are its task's hooks and receivers of signals. Written by the run.
    result_written: bool = False
    # The task's function has ended: what is published in its run now follows it. Written by the run.
    over: bool = False
    # Its next attempt was published by the task itself (`self.retry`). Written by the run.
    retried: bool = False
    # What its run's call has raised; None = it has not. Written by the run.
    raised: BaseException | None = None
    # Held while its run writes its failure down; taken again where one class of backends calls another's method.
    writing: Any = dataclasses.field(default_factory=RLock)
    # Its run has written its failure down; False = it could not, None = it did not come so far. Written by the run.
    failure_written: bool | None = None
    # Why the run was cut off; "" = it was not.
    late: str = ""
    # Its soft limit came when it had no thread yet: there was nothing to raise it in.
    late_unbegun: bool = False

    def __post_init__(self) -> None:
        """Until more is known of the message, the order's name is its identity."""
        self.identity = (self.name, self.id, 0, 0)

    def read(self, headers: Mapping[str, Any]) -> None:
        """Take over what the message's headers say; what they say wrongly counts as not said."""
        self.attempts = count_of(headers.get(ATTEMPTS))
        self.earlier = count_of(headers.get(EARLIER))
        self.returns = count_of(headers.get(RETURNS))
        self.deliveries = count_of(headers.get(DELIVERIES))
        self.in_doubt = self.deliveries > 0 or headers.get(DOUBT) is True
        self.deadline_at = _moment(headers.get(DEADLINE))
        self.not_before_at = _moment(headers.get(NOT_BEFORE))
        self.history = history_of(headers.get(HISTORY))

    def note(self, outcome: str, reason: str = "") -> None:
        """Add the outcome of the latest attempt, or what happened to the order between two, to the history."""
        owner = f"{platform.node()}:{os.getpid()}"
        tried = Tried(self.attempts, outcome, reason[:_REASON_CHARACTERS], self.began_s, round(time.time(), 3), owner)
        self.history = (*self.history[1 - _HISTORY_MOST :], tried)

    def headers(self) -> dict[str, object]:
        """Give what a copy of the message must say."""
        return {
            **({ORDER: self.id} if self.id else {}),
            ATTEMPTS: self.attempts,
            **({EARLIER: self.earlier} if self.earlier else {}),
            RETURNS: self.returns,
            DELIVERIES: self.deliveries,
            DOUBT: self.in_doubt,
            **({NOT_BEFORE: round(self.not_before_at, 3)} if self.not_before_at else {}),
            HISTORY: json.dumps([dataclasses.asdict(tried) for tried in self.history], separators=(",", ":")),
        }

    @property
    def may_be_repeated(self) -> bool:
        """Somebody may have had it before: it was delivered again, or handed back."""
        return bool(self.redelivered or self.deliveries or self.returns or self.in_doubt)

    def remaining_s(self) -> float | None:
        """Seconds to the deadline, negative after it; None = it has none."""
        return self.deadline_at - time.time() if self.deadline_at else None

    def deadline_ns(self, now_ns: int) -> int:
        """The deadline on the clock that `now_ns` was read from; 0 = it has none."""
        return _on_clock(self.deadline_at, now_ns)

    def begins_from_ns(self, now_ns: int) -> int:
        """From when its next attempt may begin, on the same clock; 0 = now."""
        at_ns = _on_clock(self.not_before_at, now_ns)
        return at_ns if at_ns > now_ns else 0

    def begins_until_ns(self, now_ns: int) -> int:
        """Until when it may begin, on the same clock: its deadline or Celery's `expires`; 0 = for ever."""
        return min(filter(None, (_on_clock(self.deadline_at, now_ns), _on_clock(self.expires_at, now_ns))), default=0)


@dataclasses.dataclass(frozen=True)
class Current:
    """The order that the calling task works on."""

    #: The same in each attempt: what to send to the other side as the idempotency key.
    id: str
    key: str
    #: From 1.
    attempt: int
    #: When the order is due, whatever attempts it takes: seconds since 1970; 0 = never.
    deadline_at: float
    #: When this attempt is cut off: at the deadline, or sooner by its time limit. Monotonic ns; 0 = never.
    due_ns: int = 0

    def remaining_s(self) -> float | None:
        """Seconds that this attempt has left, at least 0: a client's time-out. None = as many as it wants.

        Example:
            >>> Current("7", "merchant", 1, 0.0).remaining_s() is None
            True
        """
        return max(0.0, (self.due_ns - time.monotonic_ns()) / 1e9) if self.due_ns else None


running: ContextVar[Order | None] = ContextVar("greenlane_order", default=None)
#: Which of its order's runs this is: another one than `Order.generation` was given up.
run_generation: ContextVar[int] = ContextVar("greenlane_generation", default=0)


def given_up(order: Order) -> bool:
    """Whether the run that asks is one of this order's that was given up: another one may have begun."""
    return order.generation != run_generation.get()


def current() -> Current | None:
    """Give the order that this task works on; None outside of a task that Greenlane's worker runs."""
    order = running.get()
    return None if order is None else Current(order.id, order.key, order.attempts, order.deadline_at, order.due_ns)


def _on_clock(at_s: float, now_ns: int) -> int:
    return max(1, now_ns + int((at_s - time.time()) * 1e9)) if at_s else 0


def _moment(said: Any) -> float:
    try:
        at_s = float(said)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return at_s if abs(at_s) < _NO_TIME_S else 0.0


def packed(result: object, *, pickled: bool = False) -> bytes:
    """Give an order's result as the store keeps it: JSON, with dates, decimals and UUIDs as Celery writes them.

    Args:
        result: of the task's function.
        pickled: where JSON cannot say it, pickle may: for apps whose results are pickled anyway.

    b"" for one that cannot be written: it is done all the same.
    """
    from kombu.utils.json import dumps

    try:
        return bytes(dumps(result, separators=(",", ":")).encode())
    except Exception:  # the call is made, whatever its result says when it is written down
        with contextlib.suppress(Exception):
            return pickle.dumps(result, pickle.HIGHEST_PROTOCOL) if pickled else b""
        return b""


def unpacked(kept: bytes, *, pickled: bool = False) -> Any:
    """Give the result of these bytes; None where none was kept, or something else by somebody else's `Store.done`."""
    from kombu.utils.json import loads

    try:
        if kept.startswith(_PICKLE):
            return pickle.loads(kept) if pickled else None
        return loads(kept) if kept else None
    except Exception:
        return None
