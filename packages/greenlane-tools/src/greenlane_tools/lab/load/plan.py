"""What a run of load is: streams of requests, when they arrive, how much work each asks for.

All who need to know what was asked read it here: the generator that sends it, the simulation that serves it, and
the tests. Nothing is drawn here: `schedule` does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Poisson:
    """Independent users: gaps are exponential. 0 or less = no request."""

    per_s: float


@dataclass(frozen=True)
class Constant:
    """A clock: even gaps, the first request after half a gap, so that a count is its rate times its seconds.

    When not: to stand for users. Even spacing understates the queue that they make.
    """

    per_s: float


@dataclass(frozen=True)
class Burst:
    """`size` requests due at one instant, first at `first_s`, then `every_s` later each; 0 = only once."""

    size: int
    every_s: float
    first_s: float = 0.0


@dataclass(frozen=True)
class Recorded:
    """Exactly these instants, ns from the start, in any order; what is past the plan's end is left out."""

    at_ns: tuple[int, ...]
    # What makes them less exact than they look, a sentence each.
    notes: tuple[str, ...] = field(default=(), compare=False)


Arrivals = Poisson | Constant | Burst | Recorded


@dataclass(frozen=True)
class Work:
    """A lognormal amount of work, sent in the query (`?ms=12.345`)."""

    # Above 0.
    mean_ms: float
    # Standard deviation / mean; 0 = always the mean.
    cv: float = 0.0
    parameter: str = "ms"


@dataclass(frozen=True)
class Stream:
    """Requests of one kind."""

    # The endpoint in tables; part of the seed, so a stream draws the same whatever streams are beside it.
    name: str
    # "host:port" or "unix:/path": contenders with several servers get each stream at its own.
    address: str
    arrivals: Arrivals
    path: str = "/"
    method: str = "GET"
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    # "new": one connection a request. "keep-alive": used again, the one used last first.
    connections: Literal["new", "keep-alive"] = "new"
    # With keep-alive: at most this many; further requests wait for one, and that wait is part of their latency. 0 = as
    # many as needed. Streams of one address and limit share their connections.
    most_connections: int = 0
    # From the scheduled send. 10 s: longer than any deadline that we measure against.
    timeout_s: float = 10.0
    # Expected CPU of one job in ms; used only to hold the schedule to its label (see `schedule`). 0 = not counted.
    cost_ms: float = 0.0
    work: Work | None = None


@dataclass(frozen=True)
class Plan:
    """One run of the generator."""

    seed: str
    # Arrivals end then; answers are waited for longer, up to each stream's time-out.
    seconds: float
    streams: tuple[Stream, ...]
    # Answers' header that holds a number, such as a worker's process id, for `Samples.worker`; "" = none.
    worker_header: str = ""
