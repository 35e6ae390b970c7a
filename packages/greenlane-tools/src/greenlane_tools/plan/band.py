"""Bands: between what and what a measurement of a set-up will be, nine times of ten.

A prediction errs for three reasons, and each widens the band. The requests that were seen are a sample: each draw
takes them again, with repetition. The cores of a machine change their speed from minute to minute: each draw has one.
And a measurement is short: each draw simulates as many requests as come in `WINDOW_S`. Of 19 draws, what comes next is
between the lowest and the highest nine times of ten, whatever its law. What the model itself gets wrong is a factor
beyond both ends; `make prove ARGS="--only plan"` says which factor it takes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.options import CellRuns, Judged, Option, cell_of, predicted
from greenlane_tools.plan.profile import LOOPS, Profile
from greenlane_tools.plan.route import Kind, Mean, Route
from greenlane_tools.plan.set_up import SetUp
from greenlane_tools.plan.simulation import simulate_cells

# --- How far the cliff is: the load at which a goal breaks, by bisection with runs at length.


#: Halves of the loads between nothing and the present one, or between that and the load at which processes are full.
_HALVES: Final = 6
#: Loads nearer to each other are one: so they are printed.
_NEAR_FRAC: Final = 0.02


def with_cliff(runs: CellRuns, options: Sequence[Option]) -> list[Option]:
    """The same, run at length at the profile's load and at others, until it is known where a goal breaks."""
    at = runs.at([option.candidate for option in options], "looking at the best at length", quick=False)
    found = [_placed(runs, replace(option, at=run, curve=(run,))) for option, run in zip(options, at, strict=True)]
    for half in range(_HALVES):
        middles = {number: load for number, option in enumerate(found) if (load := _middle(option))}
        cells = [(found[number].set_up, runs.profile, load) for number, load in middles.items()]
        said = f"looking for the cliff, step {half + 1} of {_HALVES}"
        for number, run in zip(middles, runs.cells(cells, said, quick=False) if cells else (), strict=True):
            curve = sorted((*found[number].curve, run), key=lambda each: each.load)
            found[number] = _placed(runs, replace(found[number], curve=tuple(curve)))
    return found


def _placed(runs: CellRuns, option: Option) -> Option:
    """With the loads between which a goal breaks. Where processes are full it does in any case."""
    full = full_load(runs.profile, option.set_up)
    missed = [run.load for run in option.curve if not run.reached]
    holds = max((run.load for run in option.curve if run.reached), default=0.0)
    breaks = min(missed, default=full if full > holds else math.inf)
    return replace(option, holds=holds if math.isfinite(breaks) else math.inf, breaks=breaks)


def _middle(option: Option) -> float | None:
    """A load between the last that holds and the first that does not; None = they are next to each other."""
    low, high = option.holds or 0.0, option.breaks or 0.0
    if not math.isfinite(high) or high - low <= _NEAR_FRAC * high:
        return None
    middle = (low + high) / 2
    return round(middle, 2) if middle >= 0.1 else round(middle, 6)


def full_load(profile: Profile, set_up: SetUp) -> float:
    """Times the profile's load at which processes, or their places, are full, of lanes with processes of their own the
    first; inf without CPU and places."""
    own = {lane.name: lane for lane in set_up.hard}
    apart = {route for lane in own.values() for route in lane.routes}
    groups = [(lane.processes, [each for each in profile.routes if each.route in lane.routes]) for lane in own.values()]
    shared = set_up.processes - sum(lane.processes for lane in own.values())
    groups.append((shared, [each for each in profile.routes if each.route not in apart]))
    found = math.inf
    computing = 0.0
    for processes, routes in groups:
        locked, cpu, stay = _work(profile, set_up, routes)
        computing += cpu
        found = min(
            found,
            processes / locked if locked else math.inf,
            processes * set_up.limit / stay if set_up.limit and stay else math.inf,
        )
    return min(found, set_up.cores / computing) if computing and set_up.cores else found


def _work(profile: Profile, set_up: SetUp, routes: Sequence[Route]) -> tuple[float, float, float]:
    """Of these routes: processes that their CPU fills, cores, and requests in progress with nobody to wait for."""
    held = set_up.host in LOOPS
    dispatch_ms = profile.overhead_ms + set_up.costs.dispatch_us / 1000
    locked = cpu = stay = 0.0
    for route in routes:
        mean, per_ms = route.demand, route.rate_per_s / 1000
        unlocked_frac = (route.unlocked_frac or 0.0) if profile.unlocks(set_up.host) else 0.0
        # A loop waits for what threads computed without the GIL, too.
        kept_ms = mean.held_ms + (mean.free_ms if profile.host not in LOOPS else 0.0) if held else 0.0
        locked += per_ms * (mean.cpu_ms * (1 - unlocked_frac) + dispatch_ms + kept_ms)
        cpu += per_ms * (mean.cpu_ms + mean.free_ms + dispatch_ms)
        stay += per_ms * (mean.cpu_ms + mean.free_ms + mean.io_ms + mean.held_ms)
    return locked, cpu, stay


#: Of 19 draws and a measurement alike, the latter is lowest or highest once in ten times.
DRAWS: Final = 19
_SURE: Final = 18
#: Length of a measurement, s: as dashboards have it.
WINDOW_S: Final = 300.0
#: Spread of the cores' speed, as the standard deviation of its logarithm, where the recording does not tell it. A quiet
#: machine has 0.02; a shared one whose cores run at two speeds 0.3. Arbitrary in between.
SPEED: Final = 0.08
#: The next minutes may be others than those that were recorded. Arbitrary.
LEAST_SPEED: Final = 0.02
#: How well a timed loop tells at what speed requests are computed, likewise: it meets a neighbour of its core more or
#: less often than they do. Measured: CPU a request by CPU of the loop in six runs of httpbin.
TOLD_SPEED: Final = 0.05
#: The model's own error: a factor of latencies, and of the share that is late. Measured: 1.03 to 1.27 (docs/plan.md).
MODEL: Final = 1.3
#: Requests of a draw: fewer give no percentile, more take time and stray no less.
_LEAST, _MOST = 500, 60_000
#: As the fields of a `Mean` stand.
_ORDER: Final[tuple[Kind, ...]] = ("cpu", "free", "io", "held")


@dataclass(frozen=True, slots=True)
class Band:
    """What a measurement of one goal will be between. A latency without end is inf."""

    goal: Goal
    low_ms: float
    high_ms: float
    low_within: float
    high_within: float
    #: Its latency in each draw. All set-ups meet the same draws.
    drawn_ms: tuple[float, ...] = ()


def surely_better(one: Iterable[Band], other: Iterable[Band]) -> bool:
    """Whether the goals that are nearest to being missed are met by more than the model's error better by `one`, in so
    many draws that another one would be, too, nine times of ten."""
    ours, theirs = _tails(one), _tails(other)
    return sum(math.isfinite(mine) and mine * MODEL <= his for mine, his in zip(ours, theirs, strict=True)) >= _SURE


def _tails(found: Iterable[Band]) -> list[float]:
    """The worst latency by its limit, in each draw."""
    return list(map(max, zip(*([ms / each.goal.limit_ms for ms in each.drawn_ms] for each in found), strict=True)))


def bands(
    profile: Profile, set_up: SetUp, goals: Sequence[Goal], *, seed: int, load: float = 1.0,
    window_s: float = WINDOW_S, slower: float | None = None,
) -> Mapping[tuple[str, float], Band]:  # fmt: skip
    """The band of each goal, by its route and limit.

    Args:
        slower: by how many times a timed loop was slower in the measurement than in the recording; None = not timed.

    Cost: 19 runs of a few ten thousand requests: a second.
    """
    chance = random.Random(seed)
    jobs = round(min(_MOST, max(_LEAST, window_s * load * profile.arrivals.rate_per_s)))
    drawn = [_drawn(profile, chance, slower) for _ in range(DRAWS)]
    cells = [cell_of(one, set_up, goals, jobs=jobs, seed=seed + draw, load=load) for draw, one in enumerate(drawn)]
    runs = [predicted(run, one, set_up, goals, load) for run, one in zip(simulate_cells(cells), drawn, strict=True)]
    found = {}
    for number, goal in enumerate(goals):
        found[goal.route, goal.limit_ms] = _band(goal, [run.goals[number] for run in runs])
    return found


def _band(goal: Goal, draws: Sequence[Judged]) -> Band:
    latencies = [math.inf if math.isnan(each.latency_ms) else each.latency_ms for each in draws]
    shares = [each.within for each in draws]
    return Band(
        goal,
        min(latencies) / MODEL,
        max(latencies) * MODEL,
        max(0.0, 1 - (1 - min(shares)) * MODEL),
        1 - (1 - max(shares)) / MODEL,
        tuple(latencies),
    )


def _drawn(profile: Profile, chance: random.Random, told: float | None) -> Profile:
    spread, middle = SPEED if profile.loop_spread is None else max(LEAST_SPEED, profile.loop_spread), 0.0
    if told is not None:
        # The mean of two normal laws of one number, what the recording lets expect and what was told. The spread stays:
        # it is that of stretches of 10 s, and a measurement has such stretches too.
        middle = math.log(told) * spread**2 / (spread**2 + TOLD_SPEED**2)
    slower = math.exp(chance.gauss(middle, spread))
    if profile.source != "model":
        profile = replace(profile, routes=tuple(_again(route, chance) for route in profile.routes))
    return profile.slowed(slower)


def _again(route: Route, chance: random.Random) -> Route:
    """A route of which these requests had been seen."""
    drawn = tuple(chance.choices(route.sequences, k=len(route.sequences)))
    was, now, exact = (replace(route, mean=None).demand, replace(route, mean=None, sequences=drawn).demand,
                       route.demand)  # fmt: skip
    mean = Mean(*(exact.of(kind) * now.of(kind) / was.of(kind) if was.of(kind) else 0.0 for kind in _ORDER))
    return replace(route, sequences=drawn, mean=mean)
