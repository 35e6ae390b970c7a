"""What a run of load is: streams of requests, and the schedule that its seed makes of them.

Everybody who needs to know what was asked reads it here: the generator that sends it, the simulation of the ideal
bound that serves it on paper, and the tests.
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Final, Literal

# A schedule whose offered CPU misses its label by more than this is drawn again: see `schedule`.
_TOLERANCE_FRAC: Final = 0.02
_DRAWS: Final = 1_000


@dataclass(frozen=True)
class Stream:
    """Requests of one endpoint: independent Poisson arrivals, and the work that each asks for."""

    endpoint: str
    # host:port that serves it: contenders with several servers get each endpoint at its own.
    address: str
    path: str
    per_s: float
    # Expected CPU of one job in ms; used only to hold the schedule to its label. 0 = not counted.
    cost_ms: float = 0.0
    # Mean of the lognormal amount sent as `?ms=`; 0 = none is sent.
    work_mean_ms: float = 0.0
    # Its standard deviation / mean; 0 = always the mean.
    work_cv: float = 0.0


@dataclass(frozen=True)
class Plan:
    """One run of the generator."""

    seed: str
    seconds: float
    streams: tuple[Stream, ...]
    # Counted from the scheduled send. 10 s: twenty times an offer's deadline.
    timeout_s: float = 10.0
    # "new": one connection a request. "keep-alive": connections are used again, as many as the load needs.
    connections: Literal["new", "keep-alive"] = "new"

    def as_json(self) -> str:
        """The text that `load.main` reads."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request to come: when (seconds from the start), of which stream, with how much work (ms, 0 = none)."""

    at_s: float
    stream: int
    work_ms: float


def read_plan(text: str) -> Plan:
    """The plan that `Plan.as_json` wrote."""
    fields = json.loads(text)
    return Plan(**{**fields, "streams": tuple(Stream(**stream) for stream in fields["streams"])})


def schedule(plan: Plan) -> list[Arrival]:
    """All arrivals of a plan in order of time: the same for the same seed, whoever is asked.

    Poisson arrivals and lognormal amounts, each endpoint from a generator of its own. In a few seconds their sum
    strays: 5 s at 0.9 would really be anything from 0.7 to 1.1. So a draw whose offered CPU misses its expectation
    by more than 2 % is drawn again (the process given its sum; still open loop, still random in time), and a cell is
    what its label says.
    """
    expected_ms = sum(stream.per_s * stream.cost_ms for stream in plan.streams) * plan.seconds
    best: list[Arrival] = []
    best_miss = math.inf
    for draw in range(_DRAWS):
        arrivals = _drawn(plan, draw)
        miss = abs(offered_ms(plan, arrivals) / expected_ms - 1) if expected_ms else 0.0
        if miss < best_miss:
            best, best_miss = arrivals, miss
        if best_miss <= _TOLERANCE_FRAC:
            break
    return best


def offered_ms(plan: Plan, arrivals: Iterable[Arrival]) -> float:
    """The CPU that these arrivals are expected to cost: each stream's cost, with drawn work for its mean."""
    return sum(job_ms(plan.streams[arrival.stream], arrival) for arrival in arrivals)


def job_ms(stream: Stream, arrival: Arrival) -> float:
    """The CPU that one arrival is expected to cost."""
    return stream.cost_ms + (arrival.work_ms - stream.work_mean_ms if stream.work_mean_ms else 0.0)


def _drawn(plan: Plan, draw: int) -> list[Arrival]:
    arrivals: list[Arrival] = []
    for number, stream in enumerate(plan.streams):
        if stream.per_s <= 0:
            continue
        source = random.Random(f"{plan.seed}/{stream.endpoint}/{draw}")
        sigma = math.sqrt(math.log(1 + stream.work_cv**2))
        mu = math.log(stream.work_mean_ms) - sigma**2 / 2 if stream.work_mean_ms else 0.0
        at_s = source.expovariate(stream.per_s)
        while at_s < plan.seconds:
            amount = source.lognormvariate(mu, sigma) if stream.work_mean_ms else 0.0
            arrivals.append(Arrival(at_s, number, round(amount, 3)))
            at_s += source.expovariate(stream.per_s)
    arrivals.sort(key=lambda arrival: arrival.at_s)
    return arrivals
