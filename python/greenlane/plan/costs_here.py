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
SOURCES: Final[Mapping[str, str]] = {
    "dispatch_us": "an empty answer by gunicorn 27 on one core: gevent 4,479 a second, 64 threads 2,847; uvicorn",
    "front_us": "HAProxy 2.6 on loopback, docs/design/0017-serve.md: 33 us of its CPU; the rest estimated",
    "switch_us": "two threads that hand the GIL to each other; estimated",
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


def costs_of(profile: Profile, host: str, *, front: bool) -> Costs:
    """What `host` adds to the profile's requests; `front`: with HAProxy before it."""
    dispatch_us = (
        max(0.0, DISPATCH_US.get(host, 0.0) - DISPATCH_US.get(profile.host, 0.0)) if host != profile.host else 0.0
    )
    return Costs(
        switch_us=0.0 if host in ("gevent", "asyncio") else SWITCH_US,
        dispatch_us=dispatch_us,
        front_us=FRONT_US if front else 0.0,
    )
