"""The answers that theory has for one kind of work, in the order in which people ask: each with its formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from greenlane_tools.plan import bounds
from greenlane_tools.plan.answer import Answer, Given
from greenlane_tools.plan.formulas import SHARED
from greenlane_tools.plan.profile import Profile, Route
from greenlane_tools.plan.steps import Sequence
from greenlane_tools.plan.waiting import Waiting, bursty

__all__ = ["Asked", "Work", "answers", "work_of"]


@dataclass(frozen=True, slots=True)
class Work:
    """What a request does, on average, and how much that varies.

    Args:
        cpu_ms: with the GIL or on the loop.
        io_ms: until replies are there; CPU without the GIL counts here: it is beside this CPU.
        cv2: variance of the CPU over its mean's square; 1 = as much as its mean.
        waits: how often it waits for I/O.
        longest_ms: its longest stretch of CPU.
    """

    cpu_ms: float
    io_ms: float
    cv2: float = 1.0
    waits: float = 1.0
    longest_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of it.

    Args:
        work: of a request.
        number: requests in progress in a process; None = not asked.
        rate_per_s: of requests to all processes; None = not asked.
        processes: that serve them.
        dispersion: of arrivals; None = not known.
    """

    work: Work
    number: int | None = None
    rate_per_s: float | None = None
    processes: int = 1
    dispersion: float | None = None


def answers(asked: Asked) -> dict[str, Answer]:
    """By a name for each. Cost: some ms."""
    found = dict(_of_work(asked.work))
    if asked.number is not None:
        found.update(_in_progress(asked.work, asked.number))
    if asked.rate_per_s is not None:
        found.update(_arriving(asked, asked.rate_per_s))
    return found


def work_of(profile: Profile, route: str | None = None) -> Work:
    """Of a profile: all its requests as they are mixed, or one route's.

    Raises: PlanError for a route that it has not.
    """
    routes = profile.routes if route is None else (profile.route(route),)
    sampled = [part for each in routes for part in _parts(each)]
    rates = math.fsum(each.rate_per_s for each in routes) or 1.0

    def over(of: Callable[[Route], float]) -> float:
        return math.fsum(each.rate_per_s * of(each) for each in routes) / rates

    def mean(of: Callable[[Sequence], float]) -> float:
        return math.fsum(share * of(each) for share, each in sampled) / math.fsum(share for share, _ in sampled)

    cpu_ms = mean(lambda each: each.ms("cpu"))
    spread = mean(lambda each: (each.ms("cpu") - cpu_ms) ** 2)
    return Work(
        over(lambda each: each.demand.cpu_ms) + profile.overhead_ms,
        over(lambda each: each.demand.io_ms + each.demand.free_ms + each.demand.held_ms),
        spread / cpu_ms**2 if cpu_ms else 0.0,
        mean(lambda each: float(sum(step.kind in ("io", "held") for step in each.steps))),
        mean(lambda each: each.longest_ms()),
    )


def _parts(route: Route) -> Iterator[tuple[float, Sequence]]:
    """Its sequences, each with its part of all requests."""
    total = math.fsum(each.weight for each in route.sequences)
    for each in route.sequences:
        yield (route.rate_per_s or 1e-9) * each.weight / total, each


def _of_work(work: Work) -> Iterator[tuple[str, Answer]]:
    yield "knee", bounds.knee(work.cpu_ms, work.io_ms)
    yield "at once", bounds.at_once(work.cpu_ms, work.io_ms)
    yield "speed-up", bounds.speed_up(work.cpu_ms, work.io_ms)


def _in_progress(work: Work, number: int) -> Iterator[tuple[str, Answer]]:
    means = bounds.closed(work.cpu_ms, work.io_ms, number)
    yield "most done", bounds.most(work.cpu_ms, work.io_ms, number)
    yield "least latency", bounds.least(work.cpu_ms, work.io_ms, number)
    yield "done", means.done
    yield "latency", means.latency
    yield "CPU busy", means.busy


def _arriving(asked: Asked, rate_per_s: float) -> Iterator[tuple[str, Answer]]:
    work, notes = asked.work, tuple(filter(None, (bursty(asked.dispersion),)))
    stay_ms = work.io_ms
    if work.cpu_ms:
        central = Waiting.like(rate_per_s, work.cpu_ms, work.cv2, asked.processes)
        each = Waiting.like(rate_per_s / asked.processes, work.cpu_ms, work.cv2)
        yield "CPU busy by arrivals", central.busy()
        if asked.processes > 1:
            yield "wait, one queue", _noted(central.wait_ms(), notes)
        yield "wait, a queue each" if asked.processes > 1 else "wait", _noted(each.wait_ms(), notes)
        # However a loop or the GIL orders visits: in the mean it is near an even share.
        rho = min(1.0, rate_per_s * work.cpu_ms / 1000 / asked.processes)
        cpu_ms = work.cpu_ms / (1 - rho) if rho < 1 else math.inf
        given = (Given("x", work.cpu_ms, "ms"), Given("S", work.io_ms, "ms"), Given("ρ", rho, "frac"))
        stay_ms += cpu_ms
        yield "latency by arrivals", Answer(stay_ms, "ms", SHARED, given, (*notes, "I/O comes on top."))
    if math.isfinite(stay_ms):
        yield "in progress", bounds.in_progress(rate_per_s, stay_ms)


def _noted(answer: Answer, notes: tuple[str, ...]) -> Answer:
    return Answer(answer.value, answer.unit, answer.formula, answer.given, (*answer.notes, *notes))
