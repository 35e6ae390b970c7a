"""How one call of an upstream is measured, on a thread, in a greenlet or in a task.

From the client's function's beginning (if it waits for a free connection of its pool: from the end of that) until it
comes back; in between the recorder knows when the I/O of this unit last became ready, which is when the reply's last
part was there. What follows is the unit waiting to run and reading.

A call inside a call belongs to the outer one, also when it runs in a task or thread that inherited the context: the
context variable holds an object that says whether its call goes on, so a task that outlives the call is free again.

Cost, beside the client's own microseconds: about 1.2 us a call, and of HTTP clients what `http.own_ns` takes.
"""

from __future__ import annotations

import contextvars
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from greenlane._native import Recorder
from greenlane.probes.wrapping import Make

__all__ = [
    # what is called, and its subscribers
    "Call",
    "Describe",
    "OwnClock",
    "Sink",
    "send_to",
    "recording",
    # functions that are one call
    "call",
    "awaited",
    "pool_wait",
    "pool_wait_awaited",
    "pool_waited",
    "now_ns",
    # calls that are several functions
    "Open",
    "begin",
    "within",
    "OK",
]

OK: Final = 0
ERROR: Final = 1
TIMEOUT: Final = 2

#: A wait for a pool's connection shorter than this is none: what the pool itself takes.
_WAITED_NS: Final = 20_000

now_ns: Final = time.monotonic_ns


class Sink(Protocol):
    """What stores calls: the native recorder, or a test's list."""

    def recording(self) -> bool:
        """Whether anything is written down now."""

    def io_ready_ns(self) -> int:
        """When this unit's I/O last became ready; 0 = never."""

    def call(
        self,
        from_ns: int,
        ready_ns: int,
        to_ns: int,
        deadline_ns: int,
        upstream: str,
        operation: str,
        outcome: int,
        own_ns: int,
        /,
    ) -> None:
        """Take a call. `own_ns`: by the upstream's own clock; 0 = it did not say."""

    def waited(self, kind: str, from_ns: int, to_ns: int, /) -> None:
        """Take a wait of this unit."""


class Call(NamedTuple):
    """What is called."""

    upstream: str
    operation: str
    #: When the client itself gives up, from the beginning; None = never.
    timeout_s: float | None = None
    #: The time-out covers the wait for a free connection, too.
    whole: bool = False


#: Says what a client's function is about to call, from its arguments; None = nothing.
Describe: TypeAlias = Callable[..., Call | None]

#: Says how long a call took by the upstream's own clock, from the answer, ns; 0 = unknown.
OwnClock: TypeAlias = Callable[[Any], int]

_UNKNOWN: Final = Call("(unknown)", "(unknown)")


class Open:
    """A call that goes on."""

    __slots__ = ("asked_ns", "from_ns", "going_on", "own_ns", "what")

    def __init__(self, what: Call) -> None:
        self.what = what
        self.going_on = True
        #: By the upstream's own clock; 0 = unknown.
        self.own_ns = 0
        #: When the client was asked, and when it had a connection.
        self.asked_ns = self.from_ns = now_ns()

    def end(self, outcome: int) -> None:
        """Write it down as ended now. Only the first word counts."""
        self.end_at(now_ns(), _sink.io_ready_ns(), outcome)

    def end_at(self, to_ns: int, ready_ns: int, outcome: int) -> None:
        """The same for a moment that has passed."""
        if not self.going_on:
            return
        self.going_on = False
        what, from_ns = self.what, self.from_ns
        # What was ready before the call is not its reply.
        ready_ns = min(ready_ns, to_ns) if ready_ns >= from_ns else 0
        deadline_ns = 0
        if what.timeout_s:
            deadline_ns = (self.asked_ns if what.whole else from_ns) + int(what.timeout_s * 1e9)
        _sink.call(from_ns, ready_ns, to_ns, deadline_ns, what.upstream, what.operation, outcome, self.own_ns)

    def fail(self, error: BaseException) -> None:
        """Write it down as ended by `error`."""
        self.end(outcome_of(error))

    def passed(self) -> tuple[int, int]:
        """(now, ready): for `end_at`, when its end becomes known only later."""
        return now_ns(), _sink.io_ready_ns()


_open: Final[contextvars.ContextVar[Open | None]] = contextvars.ContextVar("greenlane_call", default=None)
_sink: Sink = Recorder()


def send_to(sink: Sink) -> None:
    """Write calls down there from now on."""
    global _sink
    _sink = sink


def recording() -> bool:
    """Whether anything is written down now."""
    return _sink.recording()


def begin(describe: Describe, /, *args: Any, **kwargs: Any) -> Open | None:
    """Begin a call, unless one goes on around it, nothing is recorded, or `describe` says that it is none."""
    outer = _open.get()
    if (outer is not None and outer.going_on) or not _sink.recording():
        return None
    try:
        what = describe(*args, **kwargs)
    except Exception:  # arguments that the client will refuse, or a version that looks different
        what = _UNKNOWN
    return None if what is None else Open(what)


def within(one: Open | None) -> None:
    """Let calls of this context belong to `one` while it goes on; None: each is its own."""
    _open.set(one)


def _unknown(_answer: Any) -> int:
    return 0


def call(describe: Describe, own: OwnClock = _unknown) -> Make:
    """Make a wrapper for a function that calls an upstream and comes back with the answer.

    Args:
        own: reads the upstream's own clock off the answer; default: it has none.
    """

    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            one = None if silent else begin(describe, *args, **kwargs)
            if one is None:
                return original(*args, **kwargs)
            _open.set(one)
            try:
                answer = original(*args, **kwargs)
            except BaseException as error:
                one.fail(error)
                raise
            one.own_ns = own(answer)
            one.end(OK)
            return answer

        return wrapper

    return make


def awaited(describe: Describe, own: OwnClock = _unknown) -> Make:
    """Make a wrapper for a coroutine function that does; `own` as there."""

    def make(original: Callable[..., Awaitable[Any]], silent: list[bool]) -> Callable[..., Any]:
        async def wrapper(*args: Any, **kwargs: Any) -> Any:
            one = None if silent else begin(describe, *args, **kwargs)
            if one is None:
                return await original(*args, **kwargs)
            _open.set(one)
            try:
                answer = await original(*args, **kwargs)
            except BaseException as error:
                one.fail(error)
                raise
            one.own_ns = own(answer)
            one.end(OK)
            return answer

        return wrapper

    return make


def pool_wait(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    """Wrap a function that waits for a free connection of a pool and does nothing else that takes long: a `Make`."""

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if silent or not _sink.recording():
            return original(*args, **kwargs)
        from_ns = now_ns()
        try:
            return original(*args, **kwargs)
        finally:
            pool_waited(from_ns)

    return wrapper


def pool_wait_awaited(original: Callable[..., Awaitable[Any]], silent: list[bool]) -> Callable[..., Any]:
    """Wrap a coroutine function that does: a `Make`."""

    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        if silent or not _sink.recording():
            return await original(*args, **kwargs)
        from_ns = now_ns()
        try:
            return await original(*args, **kwargs)
        finally:
            pool_waited(from_ns)

    return wrapper


def pool_waited(from_ns: int) -> None:
    """Take a wait for a free connection that has ended; the call that goes on begins only now."""
    to_ns = now_ns()
    if to_ns - from_ns >= _WAITED_NS:
        _sink.waited("pool", from_ns, to_ns)
        one = _open.get()
        if one is not None and one.going_on:
            one.from_ns = to_ns


def outcome_of(error: BaseException) -> int:
    """TIMEOUT if the error, or what a client of urllib3 gave up for, calls itself one; else ERROR."""
    for one in (error, getattr(error, "reason", None)):
        # urllib3's NewConnectionError (refused) is a ConnectTimeoutError by descent only.
        names = {kind.__name__ for kind in type(one).__mro__}
        if any("Timeout" in name for name in names) and "NewConnectionError" not in names:
            return TIMEOUT
    return ERROR
