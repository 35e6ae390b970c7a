"""Profiles for tests: small ones by hand, any at all by Hypothesis, and samples of a service whose law is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st

from greenlane_tools.plan.profile import Arrivals, Measured, Profile
from greenlane_tools.plan.recorded import kept
from greenlane_tools.plan.route import KINDS, Mean, Route, Sequence, Step, joined

T = TypeVar("T")

BIKES = """
host = "gevent"
processes = 2
cores = 2
seconds = 60
[[routes]]
route = "bikes"
rate_per_s = 20
deadline_ms = 500
steps = [["cpu", 1], ["io", 100, "offers"], ["cpu", 1], ["io", 100, "offers"], ["cpu", 1]]
[[routes]]
route = "quote"
rate_per_s = 50
steps = [["cpu", { mean = 16, cv = 1 }]]
"""

_UPSTREAMS = ("db:5432", "offers:80", "zones:80")
_ROUTES = ("GET /a", "GET /b", "POST /c", "tasks.d")


def profiles() -> st.SearchStrategy[Profile]:
    """Any that was recorded: of one service, a second to a minute, with up to four routes.

    From one drawn number: Hypothesis would take most of a test's time to draw each field.
    """
    return st.integers(0, 2**64).map(_any)


def _any(seed: int) -> Profile:
    chance = random.Random(seed)
    seconds = chance.choice([1.0, 10.0, 60.0])
    names = chance.sample(_ROUTES, chance.randint(1, 4))
    routes = [_route(chance, name, seconds) for name in names]
    return Profile(
        name=chance.choice(["", "shop"]),
        source="recording",
        seconds=seconds,
        host="threads",
        processes=chance.randint(1, 8),
        cores=chance.randint(1, 8),
        slots=_perhaps(chance, chance.randint(1, 64)),
        overhead_ms=chance.randint(0, 1000) / 1000,
        arrivals=Arrivals(math.fsum(route.rate_per_s for route in routes), _perhaps(chance, chance.uniform(0, 50))),
        routes=tuple(sorted(routes, key=lambda route: (-route.rate_per_s, route.route))),
        measured={name: Measured.of([chance.lognormvariate(3, 2) for _ in range(9)]) for name in names},
        notes=chance.choice([(), ("a note.",)]),
    )


def _route(chance: random.Random, name: str, seconds: float) -> Route:
    requests = chance.randint(1, 5)
    return Route(
        route=name,
        rate_per_s=requests / seconds,
        sequences=tuple(Sequence(1.0, _steps(chance)) for _ in range(requests)),
        upstreams=_UPSTREAMS,
        deadline_ms=_perhaps(chance, chance.uniform(1, 5000)),
        requests=requests,
        unlocked_frac=_perhaps(chance, chance.choice([0.0, round(chance.random(), 3)])),
    )


def _steps(chance: random.Random) -> tuple[Step, ...]:
    steps = [Step("cpu", 1.0)]
    for _ in range(chance.randint(0, 6)):
        kind = chance.choice(KINDS)
        upstream = chance.randint(-1, 2) if kind in ("io", "held") else -1
        steps.append(Step(kind, chance.choice([0.0, chance.randint(1, 2_000_000) / 1000]), upstream))
    return tuple(Step(each.kind, round(each.ms, 5), each.upstream) for each in joined(steps))


def _perhaps(chance: random.Random, value: T) -> T | None:
    return value if chance.random() < 0.6 else None


Law = Callable[[random.Random], tuple[Step, ...]]


def sampled(
    law: Law, requests: int, *, seed: int, name: str = "GET /x", seconds: float = 60.0, most: int = 256
) -> Profile:
    """A profile as a recording of this many requests of one route would give it."""
    chance = random.Random(seed)
    made = [law(chance) for _ in range(requests)]
    cpu = [Sequence(1.0, steps).ms("cpu") for steps in made]
    io = [Sequence(1.0, steps).ms("io") for steps in made]
    mean_cpu, mean_io = sum(cpu) / requests, sum(io) / requests
    found, threshold = kept(
        [(c, i, f"{seed} {number}") for number, (c, i) in enumerate(zip(cpu, io, strict=True))], most
    )
    chosen = tuple(Sequence(weight, made[number]) for number, weight in found)
    route = Route(
        name, requests / seconds, chosen, upstreams=("up:80",), requests=requests, threshold=threshold,
        mean=Mean(cpu_ms=mean_cpu, io_ms=mean_io),
    )  # fmt: skip
    return Profile(
        host="threads", source="recording", seconds=seconds, arrivals=Arrivals(requests / seconds, 1.0),
        routes=(route,),
    )  # fmt: skip
