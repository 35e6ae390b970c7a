"""One attempt at an order: what the worker and its task share of it."""

from __future__ import annotations

import dataclasses
import time
from contextvars import ContextVar
from threading import RLock
from typing import Any

from greenlane_work.order import Order

__all__ = [
    # of the worker
    "Done",
    "Run",
    "running",
    # for tasks
    "Current",
    "NotSent",
    "current",
]


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
