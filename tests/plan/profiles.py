"""Profiles for tests: small ones by hand, any at all by Hypothesis, and samples of a service whose law is known."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

from hypothesis import strategies as st

from greenlane.plan.measured import Measured
from greenlane.plan.profile import Arrivals, Mean, Profile, Route, Upstream
from greenlane.plan.sampling import emphasised, kept, ranked
from greenlane.plan.steps import KINDS, Kind, Sequence, Step, joined

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

_MS = st.integers(0, 2_000_000).map(lambda number: number / 1000)
_UPSTREAMS = ("db:5432", "offers:80", "zones:80")
_ROUTES = ("GET /a", "GET /b", "POST /c", "tasks.d")


def _step(kind: Kind, ms: float, upstream: int) -> Step:
    return Step(kind, ms, upstream if kind in ("io", "held") else -1)


def _steps(steps: list[Step]) -> tuple[Step, ...]:
    return tuple(Step(each.kind, round(each.ms, 5), each.upstream) for each in joined([Step("cpu", 1.0), *steps]))


_STEPS = st.lists(st.builds(_step, st.sampled_from(KINDS), _MS, st.integers(-1, 2)), max_size=6).map(_steps)


@st.composite
def _routes(draw: st.DrawFn, name: str, seconds: float) -> Route:
    made = draw(st.lists(st.tuples(_STEPS, st.floats(0.5, 20)), min_size=1, max_size=5))
    salt = draw(st.integers(0, 10**9))
    sequences = [
        ranked(Sequence(1.0, steps, emphasis), f"{name} {salt} {number}")
        for number, (steps, emphasis) in enumerate(made)
    ]
    chosen, threshold = kept(sequences, 0.0)
    requests = len(made)
    return Route(
        route=name,
        rate_per_s=requests / seconds,
        sequences=chosen,
        upstreams=_UPSTREAMS,
        deadline_ms=draw(st.none() | st.floats(1, 5000)),
        bytes_out=draw(st.none() | st.integers(0, 10**6).map(float)),
        memory_mb=draw(st.none() | st.integers(1, 100).map(float)),
        requests=requests,
        threshold=threshold,
    )


@st.composite
def profiles(draw: st.DrawFn) -> Profile:
    """Any that was recorded: of one service, a second to a minute, with up to four routes."""
    seconds = draw(st.sampled_from([1.0, 10.0, 60.0]))
    names = draw(st.lists(st.sampled_from(_ROUTES), min_size=1, unique=True))
    routes = [draw(_routes(name, seconds)) for name in names]
    latencies = st.lists(st.floats(0.01, 1e5), min_size=1, max_size=9)
    return Profile(
        name=draw(st.sampled_from(["", "shop"])),
        source="recording",
        seconds=seconds,
        host="threads",
        processes=draw(st.integers(1, 8)),
        cores=draw(st.integers(1, 8)),
        slots=draw(st.none() | st.integers(1, 64)),
        overhead_ms=draw(st.integers(0, 1000)) / 1000,
        memory_mb=draw(st.none() | st.integers(10, 1000).map(float)),
        arrivals=Arrivals(math.fsum(route.rate_per_s for route in routes), draw(st.none() | st.floats(0, 50))),
        upstreams=tuple(Upstream(name, draw(st.none() | st.integers(1, 500))) for name in _UPSTREAMS),
        routes=tuple(sorted(routes, key=lambda route: (-route.rate_per_s, route.route))),
        measured={name: Measured.of(draw(latencies), due=2, late=1) for name in names},
        notes=draw(st.sampled_from([(), ("a note.",)])),
    )


Law = Callable[[random.Random], tuple[Step, ...]]


def sampled(
    law: Law, requests: int, *, seed: int, name: str = "GET /x", seconds: float = 60.0, most: int = 256
) -> Profile:
    """A profile as a recording of so many requests of one route would give it."""
    chance = random.Random(seed)
    made = [law(chance) for _ in range(requests)]
    cpu = [Sequence(1.0, steps).ms("cpu") for steps in made]
    io = [Sequence(1.0, steps).ms("io") for steps in made]
    mean_cpu, mean_io = sum(cpu) / requests, sum(io) / requests
    sequences = [
        ranked(Sequence(1.0, steps, emphasised(c, i, mean_cpu, mean_io)), f"{seed} {number}")
        for number, (steps, c, i) in enumerate(zip(made, cpu, io, strict=True))
    ]
    chosen, threshold = kept(sequences, 0.0, most)
    route = Route(
        name, requests / seconds, chosen, upstreams=("up:80",), requests=requests, threshold=threshold,
        mean=Mean(cpu_ms=mean_cpu, io_ms=mean_io),
    )  # fmt: skip
    return Profile(
        host="threads", source="recording", seconds=seconds, arrivals=Arrivals(requests / seconds, 1.0),
        routes=(route,), upstreams=(Upstream("up:80"),),
    )  # fmt: skip
