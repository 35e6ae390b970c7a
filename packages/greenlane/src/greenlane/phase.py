"""Phase events: a job's CPU phase ends where it blocks, and the next begins where it comes back.

Probes publish (`leave`, `enter`, `name`, `pin`); `record` and `lanes` subscribe; nobody else does. A job is opened and
closed by its host, which tells the subscribers directly.

Why module attributes and not an event object: these calls stand on the path of every socket call of a guest process.
With one subscriber `phase.leave` *is* that subscriber's bound (native) method, so an event costs one call. Callers must
therefore write `phase.leave(kind)`; a name bound by `from greenlane.phase import leave` would never see a subscriber.

Contract for both sides: events are cheap on a thread without a job and never raise, except `leave` on a socket's kind
in a late job whose owner asked for that (`deadline_cancel`). `leave`/`enter` may nest (a patched `recv` inside a
patched `SSLSocket.recv`); only the outermost pair counts. `enter` may wait, bounded, for a CPU permit.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final, Protocol

__all__ = [
    "Jobs",
    "Kind",
    "Observer",
    "active",
    "enter",
    "leave",
    "name",
    "offer",
    "pin",
    "remaining_ms",
    "subscribe",
    "subscribers",
    "unsubscribe",
    "withdraw",
]


class Kind(enum.IntEnum):
    """What a job blocks on. The numbers are part of the recording's format: append, never renumber."""

    SOCKET = 0
    SSL = 1
    DNS = 2
    SELECT = 3
    SLEEP = 4
    LOCK = 5
    QUEUE = 6
    FUTURE = 7
    PROCESS = 8
    DRIVER = 9
    HOST = 10


class Observer(Protocol):
    """A subscriber to phase events; called on the thread where they happen."""

    def leave(self, kind: int, /) -> None:
        """Take note that this thread's CPU phase ends: it is about to block on `kind`."""

    def enter(self) -> None:
        """Take note that the blocking call came back: the next phase begins. May wait, bounded."""

    def name(self, route: str, /) -> None:
        """Take note of the route that the framework resolved for this thread's job, such as `GET /bikes/<id>`."""

    def pin(self, route: str, weight: str, /) -> None:
        """Take note that the application's code pins `route` as `heavy` or `light`."""


class Jobs(Protocol):
    """What keeps the jobs of this process: permits, a recording."""

    def active(self) -> bool:
        """Whether this thread runs a job."""

    def remaining_ms(self) -> int | None:
        """Milliseconds until the deadline of this thread's job, 0 when past; None without job or deadline."""


def _nothing(*_arguments: object) -> None:
    """Takes the place of an event without a subscriber."""


def _no() -> bool:
    return False


def _none() -> int | None:
    return None


#: Published by probes. Rebound by `subscribe`; always call as `phase.leave(...)`.
leave: Callable[[int], None] = _nothing
enter: Callable[[], None] = _nothing
name: Callable[[str], None] = _nothing
pin: Callable[[str, str], None] = _nothing

#: Called after the subscribers have changed. Set by the probes of native calls, which ask who they are.
changed: Callable[[], None] = _nothing

#: Asked by probes and hosts. Rebound by `offer`.
active: Callable[[], bool] = _no
remaining_ms: Callable[[], int | None] = _none

_EVENTS: Final = ("leave", "enter", "name", "pin")
_observers: list[Any] = []
_jobs: list[Jobs] = []


def subscribe(observer: Any, *, first: bool = False) -> None:
    """Send every later event that it has a method for (see `Observer`) to `observer`: after the others, or `first`.

    Called by the wiring of a process only, and by workers of `greenlane serve`. An observer whose `jobs_only` is true
    gets native calls of threads that run a job of the permits, and may get others.
    """
    if not any(known is observer for known in _observers):
        _observers.insert(0 if first else len(_observers), observer)
        _bind()


def unsubscribe(observer: Any) -> None:
    """Stop sending events to `observer`. Calls that are under way may still reach it."""
    _observers[:] = [known for known in _observers if known is not observer]
    _bind()


def subscribers() -> tuple[Any, ...]:
    """Give the present subscribers, in the order in which they are called."""
    return tuple(_observers)


def offer(jobs: Jobs, *, first: bool = False) -> None:
    """Answer `active` and `remaining_ms` from `jobs`; permits stand `first`, because they know deadlines."""
    _jobs[:] = [known for known in _jobs if known is not jobs]
    _jobs.insert(0 if first else len(_jobs), jobs)
    _bind_jobs()


def withdraw(jobs: Jobs) -> None:
    """Take it back. Idempotent; without any there are no jobs."""
    _jobs[:] = [known for known in _jobs if known is not jobs]
    _bind_jobs()


def _bind_jobs() -> None:
    bindings = globals()
    bindings["active"] = _any([jobs.active for jobs in _jobs])
    bindings["remaining_ms"] = _jobs[0].remaining_ms if _jobs else _none


def _any(asked: list[Callable[[], bool]]) -> Callable[[], bool]:
    return asked[0] if len(asked) == 1 else (lambda: any(ask() for ask in asked)) if asked else _no


def _bind() -> None:
    bindings = globals()
    for event in _EVENTS:
        heard = [getattr(observer, event) for observer in _observers if hasattr(observer, event)]
        bindings[event] = heard[0] if len(heard) == 1 else _all(heard) if heard else _nothing
    changed()


def _all(heard: list[Callable[..., None]]) -> Callable[..., None]:
    def every(*arguments: object) -> None:
        for call in heard:
            call(*arguments)

    return every
