"""Deadlines of jobs: read from request headers, checked at checkpoints.

A deadline is a point of the monotonic clock, in nanoseconds; 0 = none. It counts from the job's arrival, not from when
a thread had time for it: a caller's patience began when it sent the request.
"""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Final, Protocol

from greenlane import phase
from greenlane.errors import DeadlineExceeded

__all__ = [
    "CURRENT",
    "HEADERS",
    "Checked",
    "checkpoint",
    "due_ns",
    "enter",
    "environ_names",
    "remaining_ms",
    "surrounding_ns",
    "until",
    "within_ms",
]

#: Default of the setting `deadline_headers`, and what those read who only observe.
HEADERS: Final = ("x-envoy-expected-rq-timeout-ms", "grpc-timeout")

#: grpc-timeout's units in ns. Source: gRPC over HTTP/2, "Timeout": at most 8 digits and one unit letter.
_GRPC_UNITS_NS: Final = {
    "H": 3_600_000_000_000,
    "M": 60_000_000_000,
    "S": 1_000_000_000,
    "m": 1_000_000,
    "u": 1_000,
    "n": 1,
}
#: Farther deadlines are none in practice, and native times are 64 bits.
_FARTHEST_NS: Final = 366 * 24 * 3_600_000_000_000
_GRPC: Final = re.compile(r"([0-9]{1,8})([HMSmun])")
_MILLISECONDS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,6})?")
_GRPC_HEADER: Final = "HTTP_GRPC_TIMEOUT"


def environ_names(headers: Iterable[str]) -> tuple[str, ...]:
    """Give the WSGI environ keys of these header names."""
    return tuple("HTTP_" + header.upper().replace("-", "_") for header in headers)


def due_ns(environ: Mapping[str, object], names: Iterable[str], arrival_ns: int) -> int:
    """Read the deadline that a request brings.

    Args:
        environ: the WSGI environ.
        names: environ keys in order of preference; the first present one counts.
        arrival_ns: when the request arrived, monotonic.

    Returns:
        The deadline, monotonic ns; 0 when there is none, or when its value makes no sense: a caller's malformed header
        must not fail the request.
    """
    for name in names:
        value = environ.get(name)
        if isinstance(value, str):
            span_ns = _grpc_ns(value) if name == _GRPC_HEADER else _milliseconds_ns(value)
            return arrival_ns + min(span_ns, _FARTHEST_NS) if span_ns > 0 else 0
    return 0


class Checked(Protocol):
    """What can end early at a checkpoint: a call of a placed function."""

    def check(self) -> None:
        """Raise if its caller has left."""


#: The call of a placed function that this context belongs to. The executor sets it.
CURRENT: Final[ContextVar[Checked | None]] = ContextVar("greenlane_call", default=None)


#: When what runs in this context is due, monotonic ns; 0 = never.
_DUE: Final[ContextVar[int]] = ContextVar("greenlane_due_ns", default=0)


def enter(call: Checked | None, due_ns: int) -> None:
    """Let this context belong to a call that is due then; 0 = never, None = to nobody."""
    CURRENT.set(call)
    _DUE.set(due_ns)


@contextlib.contextmanager
def within_ms(span_ms: float) -> Iterator[None]:
    """Limit the time of what runs inside: calls of `greenlane.run`, and `greenlane.checkpoint()` here.

    An earlier deadline stays in force. Only waits are interrupted.

    Example:
        >>> with within_ms(50):
        ...     checkpoint()
    """
    with until(time.monotonic_ns() + min(round(span_ms * 1_000_000), _FARTHEST_NS)):
        yield


@contextlib.contextmanager
def until(due_ns: int) -> Iterator[None]:
    """Let what runs inside be due then, monotonic ns, unless it is due sooner already; 0 = as it is."""
    before_ns = _DUE.get()
    token = _DUE.set(min(due_ns, before_ns) if due_ns and before_ns else due_ns or before_ns)
    try:
        yield
    finally:
        _DUE.reset(token)


def surrounding_ns() -> int:
    """Give when a call made here is due: the sooner of this context's deadline and the thread's job's. 0 = never."""
    due_ns = _DUE.get()
    left_ms = phase.remaining_ms()
    if left_ms is None:
        return due_ns
    job_ns = time.monotonic_ns() + left_ms * 1_000_000
    return min(due_ns, job_ns) if due_ns else job_ns


def remaining_ms() -> int | None:
    """Milliseconds until `surrounding_ns`, 0 when past; None = never. Cost: 0.1 us without a deadline."""
    due_ns, left_ms = _DUE.get(), phase.remaining_ms()
    if due_ns:
        here_ms = max(0, due_ns - time.monotonic_ns()) // 1_000_000
        return here_ms if left_ms is None else min(here_ms, left_ms)
    return left_ms


def checkpoint() -> None:
    """Raise if this work is no longer needed: its deadline has passed or its caller has left.

    For long loops of pure computation. Cost: about 0.2 us.

    Raises:
        DeadlineExceeded: this thread's job, or the running placed call, is past its deadline.
        Cancelled: the caller of the placed function has been cancelled. A BaseException: let it through.
    """
    call = CURRENT.get()
    if call is not None:
        call.check()
    due_ns = _DUE.get()
    if phase.remaining_ms() == 0 or (due_ns and time.monotonic_ns() >= due_ns):
        raise DeadlineExceeded()


def _grpc_ns(value: str) -> int:
    match = _GRPC.fullmatch(value.strip())
    return int(match[1]) * _GRPC_UNITS_NS[match[2]] if match else 0


def _milliseconds_ns(value: str) -> int:
    match = _MILLISECONDS.fullmatch(value.strip())
    return int(float(match[0]) * 1_000_000) if match else 0
