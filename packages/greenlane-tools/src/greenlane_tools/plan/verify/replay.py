"""A prediction for the very requests that were sent: same instants, same work.

Near the limit percentiles of a minute stray by tens of percent from one draw of arrivals and work to the next. So what
was measured is not held against what a set-up would do in the long run: the simulator gets the requests that the lab
sent. For those whose work the lab drew it is told which of the profile's sequences each was; of the others each run
draws one, and what differs between such runs is the interval.

What is then left between prediction and measurement is the model, the profile, and the machine.
"""

from __future__ import annotations

import bisect
import json
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from typing import Any, Final, NamedTuple

from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.scenario.request_class import RequestClass
from greenlane_tools.plan.options import cell_of
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.set_up import SetUp
from greenlane_tools.plan.simulation import Estimate, Simulated, simulate

__all__ = ["Asked", "SentRequest", "Replay", "by_work", "came_of", "replayed"]

#: Between two runs: what one of them has left is done before the next begins.
_PAUSE_MS: Final = 30_000.0
#: Runs that differ in what nobody knows.
_RUNS: Final = 8
_CPU: Final = ("cpu", "free")

#: Which of a route's sequences a request did whose work was this; None = nobody knows.
Asked = Callable[[str, float], int | None]


class SentRequest(NamedTuple):
    """A request. `sequence`: None = nobody knows. `cpu`: so many times what the profile says."""

    at_ms: float
    route: str
    sequence: int | None
    cpu: float = 1.0


@dataclass(frozen=True)
class Replay:
    """What was predicted: runs that differ in what nobody knows."""

    runs: tuple[Simulated, ...]

    def percentile(self, route: str, share: float) -> Estimate:
        """A latency, ms; the interval holds all runs."""
        return _around([run.route(route).percentile_ms(share) for run in self.runs])

    def within(self, route: str, limit_ms: float) -> Estimate:
        """The share that is done within so long."""
        return _around([run.route(route).within_frac(limit_ms) for run in self.runs])

    @property
    def cpu_ms(self) -> float:
        """CPU of a request, mean of all."""
        return statistics.fmean(map(_cpu_ms, self.runs))


def came_of(
    runs: Sequence[Samples], routes: Mapping[str, str], asked: Asked, cpu: Sequence[Sequence[float]] = ()
) -> list[SentRequest]:
    """The requests of one contender's runs, one run after the other.

    Args:
        routes: route by the load's class; what has none is left out.
        cpu: by run and request, so many times what the profile says; () = as it says.
    """
    found, begins_ms = [], 0.0
    for index, samples in enumerate(runs):
        times = cpu[index] if cpu else repeat(1.0, len(samples))
        columns = (samples.stream, samples.scheduled_ns, samples.work_ms, times)
        for number, at_ns, work, each in zip(*columns, strict=True):
            route = routes.get(samples.streams[number])
            if route is not None:
                found.append(SentRequest(begins_ms + int(at_ns) / 1e6, route, asked(route, float(work)), float(each)))
        ends_ns = int(samples.done_ns.max()) if len(samples) else 0
        begins_ms += ends_ns / 1e6 + _PAUSE_MS
    return found


def by_work(profile: Profile, classes: Mapping[str, RequestClass]) -> Asked:
    """By rank: what asks for more work than nine in ten others computes longer than nine in ten sequences.

    Args:
        classes: the load's class by route, which says how work was drawn; without work nobody knows.
    """
    ranks = {route.route: _ranked(route.sequences) for route in profile.routes}

    def asked(route: str, work: float) -> int | None:
        drawn = classes[route]
        if not drawn.work_mean_ms or not drawn.work_cv or work <= 0:
            return None
        return ranks[route](_share_below(work, drawn.work_mean_ms, drawn.work_cv))

    return asked


def replayed(
    profile: Profile, set_up: SetUp, came: Sequence[SentRequest], *, cpu: float = 1.0, seed: int = 1, rules: Any = None
) -> Replay:
    """The prediction.

    Args:
        came: at least one.
        cpu: so many times the CPU that the profile says.
        rules: of the simulation; None = production's defaults.

    Raises: PlanError for what cannot be simulated.
    """
    cell = cell_of(profile, set_up, (), jobs=len(came), seed=seed)
    assert isinstance(cell.profile, bytes), "cell_of gives JSON"
    table = json.loads(cell.profile)
    number = {route["route"]: index for index, route in enumerate(table["routes"])}
    recorded = [[one.at_ms, number[one.route], one.sequence, one.cpu * cpu] for one in came]
    table["arrivals"] = {"recorded": recorded, "once": True}
    text = json.dumps(table).encode()
    served = {**cell.set_up, **({"rules": rules} if rules else {})}
    return Replay(tuple(simulate(text, served, jobs=len(came), seed=seed + run) for run in range(_RUNS)))


def _ranked(sequences: Sequence[Any]) -> Callable[[float], int]:
    order = sorted(range(len(sequences)), key=lambda number: sequences[number].ms(*_CPU))
    upto = list(accumulate(sequences[number].weight for number in order))

    def at(share: float) -> int:
        return order[min(bisect.bisect_left(upto, share * upto[-1]), len(order) - 1)]

    return at


def _share_below(work: float, mean: float, cv: float) -> float:
    """Of lognormal amounts of work, those below this one."""
    variance = math.log(1 + cv**2)
    middle = math.log(mean) - variance / 2
    return statistics.NormalDist(middle, math.sqrt(variance)).cdf(math.log(work))


def _around(values: Sequence[float]) -> Estimate:
    return Estimate(statistics.median(values), min(values), max(values))


def _cpu_ms(run: Simulated) -> float:
    ended = sum(route.ended for route in run.routes)
    return sum(route.cpu_ms * route.ended for route in run.routes) / ended if ended else 0.0
