"""One order in a worker: what its message says, and its state."""

from __future__ import annotations

import dataclasses
import json
import os
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
    "ATTEMPTS", "DEADLINE", "DELIVERIES", "ENDED", "HISTORY", "ORDER", "RECEIVED", "RETURNS",
    "Current", "Done", "Ended", "Finished", "Identity", "Leaving", "NotSent", "Order", "Parked", "Received",
    "Run", "Running", "State", "current", "running",
]  # fmt: skip

#: Header of a message: when the order is due, seconds since 1970. Beside it stand the business's name of the order, how
#: often it was begun, how often it was handed back for want of room, and what happened to it.
DEADLINE: Final = "greenlane-deadline"


#: What `Order.read` looks for; most messages have none of it.
_READ: Final = frozenset({ATTEMPTS, EARLIER, RETURNS, DELIVERIES, DOUBT, DEADLINE, NOT_BEFORE, HISTORY})
#: An order's history keeps this many entries, the newest, so that a message does not grow without bound.
_HISTORY_MOST: Final = 16
_REASON_CHARACTERS: Final = 500


#: No date is so far away: milliseconds, infinity. The year 2286; in nanoseconds it still fits 64 bits.
_NO_TIME_S: Final = 1e10

#: Task, task id, number of Celery's own retries, and of its replacements.
Identity = tuple[str, str, int, int]


class NotSent(Exception):
    """Raise it in a task to say that nothing of this attempt has reached the upstream."""


@dataclasses.dataclass(frozen=True, slots=True)
class Done:
    """An order's call has ended well; its result, or what follows it, may still have to be written and published."""

    result: Any
    #: What the store has to be told it by; "" = the store knows, or there is none.
    token: str = ""
    #: How often what follows it, or its result, could not be published or written.
    writings: int = 0
    #: What follows it was published: only its result is to be written.
    followed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Received:
    """It was read from its message; nothing is decided. It may be a second delivery of an order that is here."""

    #: When it may begin, monotonic ns; 0 = now.
    from_ns: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Parked:
    """It waits for a place at its key, or for a time; it holds no thread."""

    #: When its next attempt may begin, monotonic ns; 0 = now.
    from_ns: int = 0
    #: None = it is still to be called.
    done: Done | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Running:
    """One attempt is made, or the store is being asked for it."""

    run: Run


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    """The attempt is over, and the store knows; its place is free."""

    run: Run
    #: What it says of the order: see `worker.verdicts`.
    outcome: Any


@dataclasses.dataclass(frozen=True, slots=True)
class Leaving:
    """Its end is being written down, or its copy is on its way. The broker still has the original."""

    #: The copy that follows, or is on its way: see `worker.transitions.Copy`. None = it is acknowledged next.
    copy: Any = None
    #: The result backend has not written its end down yet.
    unwritten: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Ended:
    """The broker has it back, or knows that it is done with."""


State = Received | Parked | Running | Finished | Leaving | Ended
RECEIVED: Final = Received()
ENDED: Final = Ended()


@dataclasses.dataclass(slots=True, eq=False)
class Order:
    """One order: what its message says, and its state. Only the owner of the channel writes it, except its counts.

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
    # See `worker.transitions`, which alone says what follows.
    state: State = RECEIVED
    # The message's identity: the same again is the same delivery, after a lost connection or from a second copy.
    identity: Identity = ("", "", 0, 0)
    # The same and the counts that its headers had: a copy of the message has one more of something.
    came: tuple[object, ...] = ()
    # The broker says that somebody had this message before.
    redelivered: bool = False
    # The host's: what it runs, and how it reports to the broker.
    request: Any = None
    delivery: Any = None
    # Further deliveries of the same message.
    copies: list[Order] = dataclasses.field(default_factory=list)
    # When it could begin at first, and when this process received it, monotonic.
    arrival_ns: int = 0
    received_ns: int = 0
    # Seconds since 1970; 0 = none. Celery's `expires`: not begun after it.
    deadline_at: float = 0.0
    expires_at: float = 0.0

    # What a copy says of it; a run writes these, too.
    # An earlier attempt may have had its effect.
    in_doubt: bool = False
    # Begun so far, here and elsewhere.
    attempts: int = 0
    returns: int = 0
    deliveries: int = 0
    # Begun before it was a dead letter and sent again: the store counts on, the bound does not.
    earlier: int = 0
    history: tuple[Tried, ...] = ()
    # From when its next attempt may begin, wherever that is. Seconds since 1970; 0 = none.
    not_before_at: float = 0.0
    # When the latest attempt began, seconds since 1970; 0 = not begun here.
    began_s: float = 0.0
    # Runs in this process, and how often in a row the store said that it runs elsewhere.
    runs: int = 0
    waits: int = 0

    def __post_init__(self) -> None:
        """Until more is known of the message, the order's name is its identity."""
        self.identity = (self.name, self.id, 0, 0)

    @property
    def run(self) -> Run | None:
        """The attempt that is being made."""
        return self.state.run if isinstance(self.state, Running) else None

    @property
    def done(self) -> Done | None:
        """Its call has ended well. None = it has not, or the order is elsewhere by now."""
        if isinstance(self.state, Running | Finished):
            return self.state.run.done
        return self.state.done if isinstance(self.state, Parked) else None

    def read(self, headers: Mapping[str, Any]) -> None:
        """Take over what the message's headers say; what they say wrongly counts as not said."""
        if _READ.isdisjoint(headers):
            return
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
        at_s = min(filter(None, (self.deadline_at, self.expires_at)), default=0.0)
        return _on_clock(at_s, now_ns) if at_s else 0


@dataclasses.dataclass(slots=True, eq=False)
class Run:
    """One attempt at an order, and what has become of it. One that was given up may go on: nothing it says is heard."""

    order: Order
    #: The owner has given it up, at its hard limit.
    abandoned: bool = False

    # Set before it begins.
    # Monotonic; `due_ns`: when it is to end, 0 = no limit.
    due_ns: int = 0
    begun_ns: int = 0
    # What had kept the order since it could begin: (what, ns).
    held: tuple[tuple[str, int], ...] = ()
    # Whose breakers it is a probe of: its key's, its provider's (with a slash behind).
    probes: tuple[str, ...] = ()
    timers: list[Any] = dataclasses.field(default_factory=list)
    # Whatever interrupts it needs: its thread or greenlet, set under `guard`; None = nothing runs.
    runner: Any = None
    guard: Any = None

    # Of the store: what it answered before the run, until the run takes that out, and the attempt's token; "" = none.
    answer: Any = None
    token: str = ""
    # What it is to be told when the run has ended: `Kind`, and what goes with it. Written by the run, as all below.
    untold: tuple[Any, dict[str, Any]] | None = None
    # The task's function has ended well: what follows it (the next of a chain) may still fail.
    done: Done | None = None
    # The task's function has ended: what is published now follows it.
    over: bool = False
    # The next attempt was published by the task itself (`self.retry`).
    retried: bool = False
    # What the call has raised; None = it has not.
    raised: BaseException | None = None
    # Why it was cut off; "" = it was not. By the owner.
    late: str = ""
    # Its soft limit came when it had no thread yet: there was nothing to raise it in.
    late_unbegun: bool = False
    # Its result is written: what it does now are its task's hooks and receivers of signals.
    result_written: bool = False
    # It has written its failure down; False = it could not, None = it did not come so far.
    failure_written: bool | None = None
    # Held while it does; taken again where one class of backends calls another's method.
    writing: Any = dataclasses.field(default_factory=RLock)


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


running: ContextVar[Run | None] = ContextVar("greenlane_run", default=None)


def current() -> Current | None:
    """Give the order that this task works on; None outside of a task that Greenlane's worker runs."""
    run = running.get()
    if run is None:
        return None
    order = run.order
    return Current(order.id, order.key, order.attempts, order.deadline_at, run.due_ns)


def _on_clock(at_s: float, now_ns: int) -> int:
    return max(1, now_ns + int((at_s - time.time()) * 1e9)) if at_s else 0


def _moment(said: Any) -> float:
    try:
        at_s = float(said)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return at_s if abs(at_s) < _NO_TIME_S else 0.0
