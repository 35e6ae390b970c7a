"""What serving in another way costs, where nobody has measured it: defaults, each with its source.

`Transport` and `Factor`: having work done elsewhere. Measured on 2 cores of an AMD EPYC under CPython 3.11: read ratios
rather than milliseconds, and give your own where you have them. `greenlane lab placement` measures them on your machine
for functions like yours.

`Costs`: what a host adds beside the requests' own work. A profile from a recording has the present host's share in its
overhead already; what is added for another host is the difference. Nothing is taken off: a host that is cheaper than
the present one is not credited with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from greenlane_tools.plan.profile import LOOPS, Profile

__all__ = [
    "ARENA",
    "FRONT_MS_OF_CPU",
    "JSON",
    "NATIVE",
    "ORJSON",
    "POOL",
    "POOL_BUFFERS",
    "SOURCES",
    "Costs",
    "Factor",
    "Transport",
    "costs_of",
    "unserved",
]

#: CPU of a request that does nothing, us: gunicorn's gevent worker 4,479 a second, its threads 2,847 (a hand-over from
#: the poller to a pool, and back).
DISPATCH_US: Final[Mapping[str, float]] = {"gevent": 223.0, "threads": 351.0, "permits": 351.0, "asyncio": 150.0}
#: HAProxy before the workers: two hops over loopback, and 33 us of its CPU on a core that may be another one's.
FRONT_US: Final = 150.0
FRONT_MS_OF_CPU: Final = 0.033
#: From one thread to the next: a futex, a wake-up, a cold cache.
SWITCH_US: Final = 25.0
#: The one thread that accepts, in gunicorn's thread worker: it tells the arbiter that it lives, polls, accepts, sets
#: the socket's mode twice. Each is a call, after which it needs the GIL again.
TURNS_PER_REQUEST: Final = 5
#: When a request is over: it polls, reads its pipe, sets the mode, shuts down, polls and reads what is left, closes.
TURNS_PER_ANSWER: Final = 7
#: The request's thread: makes a poll, adds the socket, polls, closes it, sets the mode twice, reads.
RELEASES_PER_REQUEST: Final = 7
#: It sends the answer's head, then its body; with the latter the client has all.
RELEASES_PER_ANSWER: Final = 1
#: A GET of an upstream by http.client, with a time-out, beside its wait: look up, make a socket, set its mode, connect,
#: poll, ask for its error, poll, send; then receive, close. A body is sent by itself: two more.
RELEASES_PER_CALL: Final = 10
#: Of these, not with permits: what a job sends under permits (up to 16 kB) is tried first with the GIL kept, and not
#: polled for. So is an answer's head.
KEPT_PER_CALL: Final = 2
#: Where another core is idle whoever was woken is there within such a call: kept in 0.55 to 0.75 of the calls of a
#: series, 0.8 of single ones. Where the other cores are busy: 0.93 to 0.99.
KEPT_FRAC: Final = 0.7
#: An upstream on the same machine computes meanwhile. With one elsewhere: 0.45.
KEPT_IN_CALL_FRAC: Final = 0.95
RACE_US: Final = 50.0
#: Beside two threads that compute a third one waits for 3.5 switches between them.
ASKER_FRAC: Final = 0.8
#: Timers of threads have a slack of 50 us, and somebody has to wake up.
TIMER_US: Final = 100.0
SOURCES: Final[Mapping[str, str]] = {
    "dispatch_us": "an empty answer by gunicorn 27 on one core: gevent 4,479 a second, 64 threads 2,847; uvicorn",
    "front_us": "HAProxy 2.6 on loopback, docs/design/0017-serve.md: 33 us of its CPU; the rest estimated",
    "switch_us": "docs/design/0021: eight threads that compute, 2,000 switches a second, do 0.95 of the work",
    "turns_per_request": "strace of gunicorn 27's gthread under the pricing scenario: calls of the thread that accepts",
    "turns_per_answer": "the same, after a request",
    "releases_per_request": "the same, of a request's thread before the application is called",
    "releases_per_answer": "the same, behind it",
    "releases_per_call": "the same, of http.client",
    "kept_frac": "python -m bench.gil, one core idle: a request's begin 0.67 a call, an accept 0.7",
    "kept_in_call_frac": "python -m bench.gil, no core idle",
    "race_us": "python -m bench.gil: a call of 25 us keeps the GIL, one of 100 us does not",
    "asker_frac": "python -m bench.gil: switches between two threads while a third one waits",
    "timer_us": "python -m bench.gil: turns of 5.15 ms at an interval of 5",
}


@dataclass(frozen=True, slots=True)
class Transport:
    """A way of arguments to where the work is done, and of results back.

    Args:
        name: for answers.
        fixed_ms: a call, wall clock and mostly waiting.
        out_here, out_there, back_there, back_here: CPU, ms for each MB: of arguments where they are sent and where they
            arrive, of results likewise. What is spent here keeps the loop, or the GIL, which is the same to others.
        source: who measured it, on what.
    """

    name: str
    fixed_ms: float
    out_here: float
    out_there: float
    back_there: float
    back_here: float
    source: str

    def here_ms(self, out_mb: float, back_mb: float) -> tuple[float, float]:
        """CPU in the caller: before the call, and after it."""
        return self.out_here * out_mb, self.back_here * back_mb

    def there_ms(self, out_mb: float, back_mb: float) -> float:
        """CPU where the work is done."""
        return self.out_there * out_mb + self.back_there * back_mb


POOL: Final = Transport(
    "pickle of Python objects", 0.1, 4.0, 4.0, 4.0, 4.0,
    "ProcessPoolExecutor with 3,450 dicts of 50 fields, 4 MB as JSON: 33 ms one way, 62 both, half of it in the parent",
)  # fmt: skip


POOL_BUFFERS: Final = Transport(
    "pickle of arrays", 0.1, 0.35, 0.45, 0.45, 0.35,
    "ProcessPoolExecutor with float32 arrays of 4 and 12 MB: 2.6 and 12.9 ms one way, 0.4 of it in the parent",
)  # fmt: skip


ARENA: Final = Transport(
    "shared memory", 0.042, 0.06, 0.03, 0.03, 0.06,
    "Greenlane's workers: an empty call across cores 42 us, a copy of 1 MB there and its reading (docs/design/0011)",
)  # fmt: skip


JSON: Final = Transport(
    "json", 0.3, 11.3, 14.5, 11.3, 14.5,
    "json.dumps and json.loads of 3,000 items, 2.88 MB: 32.5 and 41.8 ms (systems/feed/advice.md)",
)  # fmt: skip


ORJSON: Final = Transport(
    "orjson", 0.3, 1.24, 4.17, 1.24, 4.17,
    "orjson of 3,000 items, 2.88 MB: 3.58 and 12 ms (systems/feed/advice.md)",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Factor:
    """How many times less something takes, and who says so."""

    value: float
    source: str


#: The part that computes in native code on the same stored data.
NATIVE: Final = Factor(
    2.6,
    "ranking path of systems/feed with its features in Rust, items still JSON: 250 to 95 ms; packed records: 71 times",
)


@dataclass(frozen=True, slots=True)
class Costs:
    """What the machine adds, us."""

    #: CPU from one thread to the next.
    switch_us: float = 0.0
    #: CPU of a request beside its own.
    dispatch_us: float = 0.0
    #: Latency on the way to the process and back.
    front_us: float = 0.0
    #: Of a GIL: see `greenlane_tools.plan.simulation`.
    turns_per_request: int = 0
    turns_per_answer: int = 0
    releases_per_request: int = 0
    releases_per_answer: int = 0
    releases_per_call: int = 0
    kept_frac: float = 0.0
    kept_in_call_frac: float = 0.0
    race_us: float = 0.0
    asker_frac: float = 0.0
    timer_us: float = 0.0


def costs_of(profile: Profile, host: str, *, front: bool) -> Costs:
    """What `host` adds to the profile's requests; `front`: with HAProxy before it."""
    dispatch_us = (
        max(0.0, DISPATCH_US.get(host, 0.0) - DISPATCH_US.get(profile.host, 0.0)) if host != profile.host else 0.0
    )
    loops = host in LOOPS
    served = host in ("threads", "permits")
    return Costs(
        switch_us=0.0 if loops else SWITCH_US,
        dispatch_us=dispatch_us,
        front_us=FRONT_US if front else 0.0,
        turns_per_request=TURNS_PER_REQUEST if served else 0,
        turns_per_answer=TURNS_PER_ANSWER if served else 0,
        releases_per_request=RELEASES_PER_REQUEST if served else 0,
        releases_per_answer=RELEASES_PER_ANSWER if host == "threads" and profile.host in LOOPS else 0,
        releases_per_call=_releases(profile, host),
        kept_frac=KEPT_FRAC,
        kept_in_call_frac=KEPT_IN_CALL_FRAC,
        race_us=RACE_US,
        asker_frac=ASKER_FRAC,
        timer_us=TIMER_US,
    )


def unserved(costs: Costs) -> Costs:
    """The same without a server that hands requests to threads, and without calls: what runs has its own loop."""
    return replace(
        costs, dispatch_us=0.0, turns_per_request=0, turns_per_answer=0, releases_per_request=0, releases_per_answer=0,
        releases_per_call=0,
    )  # fmt: skip


def _releases(profile: Profile, host: str) -> int:
    """A loop's recording does not show that a thread gives the GIL away to send and to wait; one of threads does."""
    if host in LOOPS or profile.host not in LOOPS:
        return 0
    return RELEASES_PER_CALL - (KEPT_PER_CALL if host == "permits" else 0)
