"""What a host adds beside the requests' own work, where nobody has measured it: defaults, each with its source.

A profile from a recording has the present host's share in its overhead already; what is added for another host is the
difference. Nothing is taken off: a host that is cheaper than the present one is not credited with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from greenlane_tools.plan.profile import LOOPS, Profile

__all__ = ["Costs", "costs_of"]

#: CPU of a request that does nothing, us: gunicorn 27 on one core, gevent 4,479 a second, 64 threads 2,847 (a hand-over
#: from the poller to a pool, and back); uvicorn.
DISPATCH_US: Final[Mapping[str, float]] = {"gevent": 223.0, "threads": 351.0, "permits": 351.0, "asyncio": 150.0}
#: HAProxy before the workers: two hops over loopback (docs/design/0017-serve.md).
FRONT_US: Final = 150.0
#: From one thread to the next: a futex, a wake-up, a cold cache (docs/design/0021-many-who-want-the-gil.md).
SWITCH_US: Final = 25.0
#: How often a thread loses the GIL in short calls, where others wait for it. The one that accepts, for a request, and
#: the one that runs it, before its first line and for its answer: once in the 5 and 8 calls that strace of gunicorn
#: 27's gthread counts (docs/plan.md). A GET of an upstream by http.client with a time-out: 0.4 of its 10, as calls of a
#: series lose it on a machine with an idle core. With an upstream on the same machine 0.05: that is a benchmark's.
DOOR_RELEASES: Final = 1
REQUEST_RELEASES: Final = 1
CALL_RELEASES: Final = 4


@dataclass(frozen=True, slots=True)
class Costs:
    """What the machine adds; see `greenlane_tools.plan.simulation`."""

    #: CPU from one thread to the next.
    switch_us: float = 0.0
    #: CPU of a request beside its own.
    dispatch_us: float = 0.0
    #: Latency on the way to the process and back.
    front_us: float = 0.0
    door_releases: int = 0
    request_releases: int = 0
    call_releases: int = 0


def costs_of(profile: Profile, host: str, *, front: bool) -> Costs:
    """What `host` adds to the profile's requests; `front`: with HAProxy before it."""
    more_us = DISPATCH_US.get(host, 0.0) - DISPATCH_US.get(profile.host, 0.0) if host != profile.host else 0.0
    served = host in ("threads", "permits")
    # A loop's recording does not show that a thread gives the GIL away to send and to wait; one of threads does.
    calls = CALL_RELEASES if profile.host in LOOPS and host not in LOOPS else 0
    return Costs(
        switch_us=0.0 if host in LOOPS else SWITCH_US,
        dispatch_us=max(0.0, more_us),
        front_us=FRONT_US if front else 0.0,
        door_releases=DOOR_RELEASES if served else 0,
        request_releases=REQUEST_RELEASES if served else 0,
        call_releases=calls,
    )
