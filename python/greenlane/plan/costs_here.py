"""What a way of serving costs beside the requests' own work: defaults, measured, each with its source.

A profile from a recording has the present host's share in its overhead already; what is added for another host is the
difference. Nothing is taken off: a host that is cheaper than the present one is not credited with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from greenlane.plan.profile import Profile

__all__ = ["FRONT_MS_OF_CPU", "SOURCES", "Costs", "costs_of"]

#: CPU of a request that does nothing, us: gunicorn's gevent worker 4,479 a second, its threads 2,847 (a hand-over from
#: the poller to a pool, and back).
DISPATCH_US: Final[Mapping[str, float]] = {"gevent": 223.0, "threads": 351.0, "permits": 351.0, "asyncio": 150.0}
#: HAProxy before the workers: two hops over loopback, and 33 us of its CPU on a core that may be another one's.
FRONT_US: Final = 150.0
FRONT_MS_OF_CPU: Final = 0.033
#: From one thread to the next: a futex, a wake-up, a cold cache.
SWITCH_US: Final = 5.0
#: The one thread that accepts, in gunicorn's thread worker: it tells the arbiter that it lives, polls, accepts; when a
#: request is over it polls, reads its own pipe, closes. Each is a call, after which it needs the GIL again.
TURNS_PER_REQUEST: Final = 6
#: A call of an upstream by http.client beside its wait: look up, connect, twice send, receive, close.
RELEASES_PER_CALL: Final = 7
#: Of these, not with permits. A GET is one `sendall`, for which a socket with a timeout is asked for room, then sends:
#: both let go of the GIL. What a job sends under permits (up to 16 kB) is tried first with the GIL kept, which does
#: neither. Left out: a body (one more `sendall`), a socket without a timeout (not asked for room).
KEPT_PER_CALL: Final = 2
#: After a call of 7 to 25 us beside three threads that compute, on two cores: mean of four kinds. After 100 us: never.
KEPT_FRAC: Final = 0.85
RACE_US: Final = 50.0
#: Beside two threads that compute a third one waits for 2.8 switches between them.
ASKER_FRAC: Final = 0.7
#: Timers of threads have a slack of 50 us, and somebody has to wake up.
TIMER_US: Final = 100.0
SOURCES: Final[Mapping[str, str]] = {
    "dispatch_us": "an empty answer by gunicorn 27 on one core: gevent 4,479 a second, 64 threads 2,847; uvicorn",
    "front_us": "HAProxy 2.6 on loopback, docs/design/0017-serve.md: 33 us of its CPU; the rest estimated",
    "switch_us": "two threads that hand the GIL to each other; estimated",
    "turns_per_request": "system calls of the thread that accepts, gunicorn 27's gthread, by its source",
    "kept_frac": "python -m bench.gil, two busy cores: utime 0.93, send 0.80, poll and receive 0.73, connect 0.93",
    "race_us": "python -m bench.gil: a call of 25 us keeps the GIL, one of 100 us does not",
    "asker_frac": "python -m bench.gil: switches between two threads while a third one waits",
    "timer_us": "python -m bench.gil: turns of 5.15 ms at an interval of 5",
}


@dataclass(frozen=True, slots=True)
class Costs:
    """What the machine adds, us."""

    #: CPU from one thread to the next.
    switch_us: float = 0.0
    #: CPU of a request beside its own.
    dispatch_us: float = 0.0
    #: Latency on the way to the process and back.
    front_us: float = 0.0
    #: Of a GIL: see `greenlane.plan.simulation`.
    turns_per_request: int = 0
    releases_per_call: int = 0
    kept_frac: float = 0.0
    race_us: float = 0.0
    asker_frac: float = 0.0
    timer_us: float = 0.0


def costs_of(profile: Profile, host: str, *, front: bool) -> Costs:
    """What `host` adds to the profile's requests; `front`: with HAProxy before it."""
    dispatch_us = (
        max(0.0, DISPATCH_US.get(host, 0.0) - DISPATCH_US.get(profile.host, 0.0)) if host != profile.host else 0.0
    )
    loops = host in ("gevent", "asyncio")
    return Costs(
        switch_us=0.0 if loops else SWITCH_US,
        dispatch_us=dispatch_us,
        front_us=FRONT_US if front else 0.0,
        turns_per_request=TURNS_PER_REQUEST if host in ("threads", "permits") else 0,
        releases_per_call=_releases(profile, host),
        kept_frac=KEPT_FRAC,
        race_us=RACE_US,
        asker_frac=ASKER_FRAC,
        timer_us=TIMER_US,
    )


def _releases(profile: Profile, host: str) -> int:
    """A loop's recording does not show that a thread gives the GIL away to send and to wait; one of threads does."""
    if host in ("gevent", "asyncio") or profile.host not in ("gevent", "asyncio"):
        return 0
    return RELEASES_PER_CALL - (KEPT_PER_CALL if host == "permits" else 0)
