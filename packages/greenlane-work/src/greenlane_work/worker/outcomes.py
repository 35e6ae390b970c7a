"""What an exception of a task says: of the upstream that it called, and of whether anything reached it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from typing import Any, Final

from celery.exceptions import Retry, SoftTimeLimitExceeded

from greenlane_work.limits import CallOutcome
from greenlane_work.order import NotSent

__all__ = ["Again", "Dead", "causes", "expected", "nothing_sent", "outcome_of", "upstream_retry_after_s", "waiting"]

#: HTTP: come later; the upstream, not the order, is the trouble.
_REFUSALS: Final = frozenset({429, 503})
#: grpc.StatusCode names.
_GRPC: Final = {
    "RESOURCE_EXHAUSTED": CallOutcome.REFUSED,
    "DEADLINE_EXCEEDED": CallOutcome.TIMED_OUT,
    "UNAVAILABLE": CallOutcome.FAILED,
    "INTERNAL": CallOutcome.FAILED,
    "UNKNOWN": CallOutcome.FAILED,
    "CANCELLED": CallOutcome.CANCELLED,
}
#: Errors of urllib3, requests and httpx: no connection was made.
_NOBODY: Final = frozenset({"NewConnectionError", "NameResolutionError", "ConnectTimeout", "ConnectTimeoutError"})
#: Packages by which a task talks to its broker and its result backend, not to an upstream.
_CELERYS: Final = frozenset({"amqp", "kombu"})
#: No upstream's word holds for longer. Arbitrary.
_RETRY_AFTER_MOST_S: Final = 3600.0
#: Causes that are looked at. Arbitrary: requests wraps urllib3 wraps the socket's error.
_DEPTH: Final = 8


class Again(Retry):  # type: ignore[misc] # Celery has no types
    """The order is to be run again in this worker, later. Celery's tracer takes it for a task's own retry."""

    def __init__(self, at_ns: int, exc: BaseException | None = None, *, counted: bool = True, why: str = "") -> None:
        super().__init__(message=why or None, exc=exc, when=max(0.0, (at_ns - time.monotonic_ns()) / 1e9))
        self.at_ns = at_ns
        # False: the attempt was no attempt, nothing was called.
        self.counted = counted
        self.why = why


def waiting(seconds: float, error: BaseException | None = None) -> Again:
    """Give what lets an order wait whose attempt was none; None = it is being done elsewhere."""
    why = "the order is being done elsewhere" if error is None else repr(error)
    return Again(time.monotonic_ns() + int(seconds * 1e9), error, counted=False, why=why)


class Dead(Exception):
    """The order must not run again. `reason`: a word for the dead letter."""

    def __init__(self, said: str, *, reason: str = "attempts") -> None:
        super().__init__(said)
        self.reason = reason


def outcome_of(error: BaseException | None) -> CallOutcome:
    """Give what a failed run says of its upstream.

    HTTP 429 and 503 are refusals, other answers below 500 are answers (it works); time-outs are slow calls. A bug of
    the task and a broker that is away say nothing. Whatever else is a failure of the call.
    """
    for cause in causes(error):
        if isinstance(cause, NotSent) or type(cause).__module__.partition(".")[0] in _CELERYS:
            return CallOutcome.CANCELLED
        if "ConnectTimeout" in type(cause).__name__:
            return CallOutcome.FAILED  # nobody listens: not a slow call
        if isinstance(cause, SoftTimeLimitExceeded | TimeoutError) or "Timeout" in type(cause).__name__:
            return CallOutcome.TIMED_OUT
        status = _status(cause)
        if status is not None:
            if status in _REFUSALS:
                return CallOutcome.REFUSED
            return CallOutcome.FAILED if status >= 500 else CallOutcome.OK
        code = _grpc(cause)
        if code is not None:
            return _GRPC.get(code, CallOutcome.OK)
    bug = error is not None and all(map(_is_a_bug, causes(error)))
    return CallOutcome.CANCELLED if bug else CallOutcome.FAILED


def _is_a_bug(error: BaseException) -> bool:
    """One of Python's own errors but those of the system, and but the plain ones that people raise for anything."""
    kind = type(error)
    return kind.__module__ == "builtins" and not isinstance(error, OSError) and kind not in (Exception, RuntimeError)


def nothing_sent(error: BaseException | None) -> bool:
    """Whether it is certain that nothing of the attempt reached the other side: it did not even listen."""
    return any(
        isinstance(cause, NotSent | ConnectionRefusedError) or type(cause).__name__ in _NOBODY
        for cause in causes(error)
    )


def upstream_retry_after_s(error: BaseException | None) -> float | None:
    """Give in how many seconds a refusal (429, 503) says that the upstream may be called again; None = it does not."""
    for cause in causes(error):
        if _status(cause) in _REFUSALS:
            headers: Any = getattr(getattr(cause, "response", cause), "headers", None)
            said = headers.get("Retry-After") if hasattr(headers, "get") else None
            return None if said is None else _seconds(str(said).strip())
    return None


def _seconds(said: str) -> float | None:
    """A number of seconds, or a date."""
    try:
        seconds = float(said) if said.isdecimal() else parsedate_to_datetime(said).timestamp() - time.time()
    except (ValueError, OverflowError):
        return None
    return min(seconds, _RETRY_AFTER_MOST_S) if seconds > 0 else None


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Give an exception and what it was raised for, nearest first."""
    seen: set[int] = set()
    waiting = [error]
    while waiting and len(seen) < _DEPTH:
        each = waiting.pop(0)
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        waiting.append(each.__cause__ or (None if each.__suppress_context__ else each.__context__))
        if isinstance(each, Retry):
            waiting.append(each.exc if isinstance(each.exc, BaseException) else None)
        # requests and urllib3 keep what they wrap among their arguments.
        waiting += [part for part in each.args if isinstance(part, BaseException)]
        waiting.append(getattr(each, "reason", None) if isinstance(getattr(each, "reason", None), Exception) else None)


def _status(error: BaseException) -> int | None:
    status: Any = getattr(getattr(error, "response", None), "status_code", None)
    if status is None:
        status = getattr(error, "status", None)  # aiohttp
    return status if isinstance(status, int) and 100 <= status <= 599 else None


def _grpc(error: BaseException) -> str | None:
    code: Any = getattr(error, "code", None)
    if type(error).__module__.partition(".")[0] != "grpc" or not callable(code):
        return None
    return str(getattr(code(), "name", ""))


def expected(task: Any) -> tuple[type[BaseException], ...]:
    """What the task says that it may raise in the ordinary course: an answer, no failure."""
    throws = getattr(task, "throws", ()) or ()
    return tuple(throws) if isinstance(throws, tuple | list) else (throws,)
