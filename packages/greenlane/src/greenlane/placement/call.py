"""One call of a placed function, from its caller to wherever it runs and back.

    waiting ──begin──> running ──finish──> finished
       │                  ├─────fail─────> failed
       └──cancel, fail────┴────cancel────> cancelled

Each arrow happens once, whatever threads race for it; the loser gets False. A call that is cancelled, or fails at
its deadline, while its function runs has ended for its *caller*: the function meets the reason at its next
`greenlane.checkpoint()`, and what it gives later is dropped.
"""

from __future__ import annotations

import contextvars
import enum
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from greenlane import deadline
from greenlane.errors import Cancelled, DeadlineExceeded
from greenlane.threads.unpatched import allocate_lock

__all__ = ["Call", "Inline", "State", "without_ours"]


class State(enum.Enum):
    """Where a call is; see the module."""

    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


# Reading a member of an enum costs more than what is done with it.
_WAITING, _RUNNING, _FINISHED = State.WAITING, State.RUNNING, State.FINISHED
_FAILED, _CANCELLED = State.FAILED, State.CANCELLED
_LIVE: Final = (_WAITING, _RUNNING)
_HERE: Final = Path(__file__).resolve().parent
#: Our frames, for tracebacks: this package, and the function that people call.
_OURS: Final = (f"{_HERE}/", f"{_HERE.parent}/wiring/placed_calls.py")


class Call:
    """One call. Its fields are set once, by its caller; its state changes through the methods alone.

    All methods may be called on any thread and never block. Cost: about 1.5 us from making to result.
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_lock",
        "_outcome",
        "active",
        "args",
        "arrival_ns",
        "begun_ns",
        "context",
        "cost",
        "deadline_ns",
        "expected_ns",
        "fn",
        "home",
        "in_band",
        "job",
        "kwargs",
        "name",
        "out_of_band",
        "ran_ns",
        "state",
        "submitted_ns",
        "ticket",
        "width",
    )

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        name: str = "",
        deadline_ns: int = 0,
        context: contextvars.Context | None = None,
        expected_ns: int = 0,
        job: int = 0,
    ) -> None:
        """Make a waiting call.

        Args:
            fn: the function.
            args: its positional arguments.
            kwargs: its named ones; None = none.
            name: what it is learned and shown as; "" = nothing is.
            deadline_ns: when its caller stops to wait, monotonic; 0 = never.
            context: what the function's context variables are; None = a copy of the caller's.
            expected_ns: how long it is expected to run, for the order of calls; 0 = unknown.
            job: the caller's job in the recording; 0 = none.
        """
        self.fn = fn
        self.args = args
        self.kwargs = kwargs or {}
        self.name = name
        self.deadline_ns = deadline_ns
        self.context = contextvars.copy_context() if context is None else context
        self.expected_ns = expected_ns
        self.job = job
        self.arrival_ns = time.monotonic_ns()
        # When it had been handed to its executor, and when it began; 0 = not yet, or nobody learns from it.
        self.submitted_ns = self.begun_ns = 0
        # How long a process had it.
        self.ran_ns = 0
        # Bytes that crossed to another process and back: pickled, and as they lie.
        self.in_band = self.out_of_band = 0
        # How many calls may run on the native thread's side at once while this one does: it leaves the GIL to others.
        self.width = 1
        # What is to be measured of it, for what is learned.
        self.cost: Any = None
        # Used only by the executor that has it.
        self.ticket = 0
        # The event loop in which it runs, if it runs where its caller is; see `Placement.run`.
        self.home: object = None
        self.state = _WAITING
        # Whether its function runs in this process now, whatever its caller has been told.
        self.active = False
        self._outcome: Any = None
        self._callbacks: list[Callable[[Call], object]] = []
        self._lock = allocate_lock()

    def begin(self) -> bool:
        """Let it run. False = do not: it was cancelled meanwhile, or is past its deadline and has now failed for it."""
        if self.deadline_ns and time.monotonic_ns() >= self.deadline_ns and self.expire():
            return False
        with self._lock:
            if self.state is not _WAITING:
                return False
            self.state = _RUNNING
        self.begun_ns = time.monotonic_ns()
        return True

    def finish(self, result: object) -> bool:
        """End it with what its function gave. False = it has ended before; nobody will see the result."""
        return self._end(_FINISHED, result)

    def fail(self, error: BaseException) -> bool:
        """End it with what its function raised, or with the reason why it cannot run. False = it has ended before."""
        return self._end(_FAILED, error)

    def cancel(self) -> bool:
        """End it for its caller: a waiting call never begins, a running one raises at its next checkpoint.

        False = it has ended before.
        """
        return self._end(_CANCELLED, None)

    def withdraw(self) -> bool:
        """Cancel it if it still waits. False = it has begun, or ended."""
        return self._end(_CANCELLED, None, (_WAITING,))

    def expire(self) -> bool:
        """End it for its caller because its deadline has come. False = it has ended before."""
        return self.fail(DeadlineExceeded("wait for a placed function", name="function", value=self.name or self.fn))

    def run(self) -> bool:
        """Begin it, run its function on this thread in its context, and end it. False = it was not to begin.

        Whatever the function raises is the call's outcome, SystemExit and KeyboardInterrupt included: the thread is not
        the caller's.
        """
        if not self.begin():
            return False
        try:
            self.active = True
            self.context.run(deadline.enter, self, self.deadline_ns)
            result = self.context.run(self.fn, *self.args, **self.kwargs)
        except BaseException as error:
            self._leave()
            self.fail(without_ours(error))
        else:
            self._leave()
            self.finish(result)
        return True

    def check(self) -> None:
        """Raise Cancelled or DeadlineExceeded if its caller has left: what `greenlane.checkpoint()` asks.

        Never after its function has ended: tasks that it has left behind belong to somebody else.
        """
        if not self.active:
            return
        if self.state is _CANCELLED:
            raise Cancelled()
        late = self.deadline_ns and time.monotonic_ns() >= self.deadline_ns
        if late or self.state is _FAILED:
            raise DeadlineExceeded()

    def result(self) -> Any:
        """Give what its function gave, or raise what it raised: once, after it has ended. Raises Cancelled if it was.

        Why once: an error's traceback holds the frames that hold this call; it must not hold the error as well.
        """
        assert self.state not in _LIVE, "a call has no result before it ends"
        if self.state is _CANCELLED:
            raise Cancelled()
        outcome, self._outcome = self._outcome, None
        if self.state is _FAILED:
            try:
                raise outcome
            finally:
                del outcome
        return outcome

    def failure(self) -> BaseException | None:
        """Give what it failed of, without taking it away; None = nothing, or not yet."""
        return self._outcome if self.state is _FAILED else None

    def add_done_callback(self, callback: Callable[[Call], object]) -> None:
        """Call `callback(self)` when it ends, on the thread that ended it; at once if it has. It never raises."""
        with self._lock:
            if self.state in _LIVE:
                self._callbacks.append(callback)
                return
        callback(self)

    def _leave(self) -> None:
        self.active = False
        self.context.run(deadline.CURRENT.set, None)  # Else the two would keep each other alive.

    def _end(self, state: State, outcome: object, of: tuple[State, ...] = _LIVE) -> bool:
        none: list[Callable[[Call], object]] = []  # Not under the lock: what is allocated may run a finalizer.
        with self._lock:
            if self.state not in of:
                return False
            self._outcome = outcome
            self.state = state
            callbacks, self._callbacks = self._callbacks, none
        for callback in callbacks:
            callback(self)
        return True


class Inline:
    """A placed function that runs where its caller is: what a `Call` is to what the function calls, and no more."""

    __slots__ = ("active", "home")

    def __init__(self, home: object) -> None:
        """Run now.

        Args:
            home: the event loop in which it runs; None = there is none.
        """
        self.home = home
        self.active = True

    def check(self) -> None:
        """Nothing: nobody can leave while it runs. Its deadline stands in its context."""


def without_ours(error: BaseException) -> BaseException:
    """Give `error` without our frames at the beginning of its traceback, to be raised again by one frame.

    Its reader sees the caller's frames and the function's, without ours between.
    """
    return error.with_traceback(_inner(error.__traceback__))


def _inner(traceback: TracebackType | None) -> TracebackType | None:
    at = traceback
    while at is not None and at.tb_frame.f_code.co_filename.startswith(_OURS):
        at = at.tb_next
    # All ours: the function could not even be called (wrong arguments), or it is a C function: there is no inner frame.
    return at
