"""Scenarios and runs made by hand, for tests of what is computed from them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from greenlane_tools.lab.pricing import pricing
from greenlane_tools.lab.run.rows import Run, Turn
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.scenario.parts import Contender, RequestClass, Service
from greenlane_tools.lab.scenario.scenario import Level, Scenario

PRICING = pricing()


class Sample(NamedTuple):
    """One request that was sent on time."""

    endpoint: str
    due_ns: int
    done_ns: int
    status: int


def sample(latency_ms: float, endpoint: str = "bikes", at_s: float = 0.0, status: int = 200) -> Sample:
    """One request that was due at `at_s`, and took `latency_ms`."""
    due_ns = int(at_s * 1e9)
    return Sample(endpoint, due_ns, due_ns + int(latency_ms * 1e6), status)


def samples(found: Iterable[Sample]) -> Samples:
    """Them as columns."""
    found = list(found)
    names = tuple(dict.fromkeys(one.endpoint for one in found))
    stream = np.array([names.index(one.endpoint) for one in found], np.uint16)
    due, done = (np.array([getattr(one, name) for one in found], np.int64) for name in ("due_ns", "done_ns"))
    status = np.array([one.status for one in found], np.int16)
    size = len(found)
    return Samples(names, stream, due, due, done, done, status, np.zeros(size, np.int32), np.zeros(size))


def run(
    found: Iterable[Sample],
    contender: str = "greenlane",
    utilisation_frac: float = 0.9,
    repetition: int = 0,
    seconds: float = 10.0,
    cpu_ms: float = 5_000.0,
) -> Run:
    """One repetition with these requests."""
    turn = Turn(contender, Level(utilisation_frac), repetition)
    return Run(turn, seconds, samples(found), cpu_ms, seconds, 50.0)


def scenario(**changes: object) -> Scenario:
    """A small one: one service, one class of 100 a second, one contender, 1 s."""
    small = Scenario(
        name="small", question="?", expected="!", seconds=1.0, repetitions=1,
        services=(Service(name="server", command=("{python}", "-V")),),
        classes=(RequestClass(name="probe", rate_per_s=100.0),),
        contenders=(Contender(name="server"),),
    )  # fmt: skip
    return replace(small, **changes)  # type: ignore[arg-type]
