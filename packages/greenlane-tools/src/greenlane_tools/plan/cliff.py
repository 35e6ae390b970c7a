"""How far the cliff is: the load at which a goal breaks, by bisection with runs at length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from greenlane_tools.plan.options import CellRuns, Option
from greenlane_tools.plan.profile import LOOPS, Profile, Route
from greenlane_tools.plan.set_up import SetUp

__all__ = ["full_load", "with_cliff"]

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
