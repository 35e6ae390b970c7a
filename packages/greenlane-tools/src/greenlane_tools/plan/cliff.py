"""How far the cliff is: the load at which a goal breaks, looked for with short runs and borne out with runs at length.

A short run may hold where a long one does not, and the other way. Runs at length go before: what a short run said of a
load below one that holds at length, or above one that misses at length, does not count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from greenlane_tools.plan.options import CellRuns, Option, Predicted
from greenlane_tools.plan.profile import LOOPS, Profile, Route
from greenlane_tools.plan.set_up import SetUp

__all__ = ["at_length", "full_load", "guessed", "told", "unsure", "with_curves"]

#: Of the load at which the first processes are full: where a curve is drawn.
_LOADS: Final = (0.2, 0.4, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98)
#: Of these, those that tell nothing new of an option that reaches the goals at a higher load.
_SPARED: Final = (0.4, 0.7, 0.8)
_HALVES: Final = 3
#: Loads are told apart by so much, which is also how they are printed.
_STEP: Final = 0.01
#: Two runs at length, one that holds and one that misses, settle where the goal breaks when they are within this.
_NEAR_FRAC: Final = 0.05


def with_curves(runs: CellRuns, options: Sequence[Option]) -> list[Option]:
    """The same with what they are like at other loads, and the load at which a goal breaks."""
    found = list(options)
    wanted = [(number, load) for number, option in enumerate(found) for load in _drawn(option, _full(runs, option))]
    found = _more(runs, found, wanted, "looking for the cliff")
    for step in range(_HALVES):
        wanted = []
        for number, option in enumerate(found):
            if (middle := _middle(option)) is not None:
                wanted.append((number, middle))
        found = _more(runs, found, wanted, f"looking for the cliff, step {step + 1} of {_HALVES}")
    return found


def at_length(
    runs: CellRuns, options: Sequence[Option], loads: Mapping[str, Sequence[float]], said: str
) -> list[Option]:
    """The same, run at length at these loads of each, by its name; what they are at the profile's load and where a goal
    breaks follows from that."""
    wanted = [(number, load) for number, option in enumerate(options) for load in loads.get(option.candidate.name, ())]
    cells = [(options[number].set_up, runs.profile, load) for number, load in wanted]
    found = list(options)
    size = runs.size(quick=False)
    for (number, load), run in zip(wanted, runs.cells(cells, said, quick=False) if cells else (), strict=True):
        option = replace(found[number], long=(*found[number].long, run))
        found[number] = replace(option, at=run, jobs=size) if load == 1 else option
    return [_placed(option, _full(runs, option)) if option.curve else option for option in found]


def unsure(runs: CellRuns, option: Option) -> tuple[float, ...]:
    """Loads at which runs at length would tell whether the goal breaks where short runs say."""
    low, high = option.holds, option.breaks
    if option.sure or low is None or high is None or not 0 < low < high < math.inf:
        return ()
    known = {run.load for run in option.long}
    if high not in known:
        # A step beyond: what is missed by a hair in a short run may hold in a long one.
        high = max(high, min(round(high + _STEP, 6), _full(runs, option)))
    wanted = tuple(load for load in (low, high) if load not in known)
    return wanted or tuple(filter(None, [_between(low, high)]))


def guessed(profile: Profile, option: Option, least: float) -> float:
    """Where the goal of an option that reaches it will break, of which nothing but its tail at the profile's load is
    known: waits grow with the load as those of a queue, as ρ / (1 - ρ).

    Args:
        least: the tail of whoever waits least.
    """
    full = full_load(profile, option.set_up)
    if not 1 < full < math.inf or option.at.tail <= least:
        return full
    waits = (1 - least) / (option.at.tail - least) / (full - 1)
    return full * waits / (1 + waits)


def told(option: Option, load: float) -> bool:
    """Whether runs at length say if the goals are reached at this load."""
    floor, ceiling = _at_length_only(option.long)
    return floor >= load or ceiling <= load


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


def _drawn(option: Option, full: float) -> list[float]:
    if not math.isfinite(full):
        return []
    loads = {_even(part * full): part for part in _LOADS}
    known = {run.load for run in option.curve} | {1.0}
    return [
        load for load, part in loads.items()
        if load not in known and not (option.at.reached and load < 1 and part in _SPARED)
    ]  # fmt: skip


def _even(load: float) -> float:
    """A load as it is printed; one so small that nothing would be left stays as it is."""
    return round(load, 2) if load >= 0.1 else round(load, 6)


def _middle(option: Option) -> float | None:
    """A load between the last that holds and the first that does not; None = they are next to each other."""
    low, high = _around([option.at, *option.curve], option.long)
    if not low or not math.isfinite(high):
        return None
    return _between(low, high)


def _between(low: float, high: float) -> float | None:
    middle = _even((low + high) / 2)
    return middle if low < middle < high else None


def _more(runs: CellRuns, options: Sequence[Option], wanted: Sequence[tuple[int, float]], said: str) -> list[Option]:
    """The same with short runs at more loads."""
    found = [option if option.curve else replace(option, curve=(option.at,)) for option in options]
    cells = [(options[number].set_up, runs.profile, load) for number, load in wanted]
    for (number, _), run in zip(wanted, runs.cells(cells, said) if cells else (), strict=True):
        curve = sorted((*found[number].curve, run), key=lambda each: each.load)
        found[number] = replace(found[number], curve=tuple(curve))
    return [_placed(option, _full(runs, option)) for option in found]


def _full(runs: CellRuns, option: Option) -> float:
    return full_load(runs.profile, option.set_up)


def _placed(option: Option, full: float) -> Option:
    """With the loads between which a goal breaks."""
    floor, ceiling = _at_length_only(option.long)
    if floor and math.isfinite(ceiling) and ceiling - floor <= _NEAR_FRAC * ceiling:
        return replace(option, holds=floor, breaks=ceiling, sure=True)
    low, high = _around(option.curve, option.long)
    if not math.isfinite(high):
        high = full if full > low else math.inf
    return replace(option, holds=low if math.isfinite(high) else math.inf, breaks=high, sure=False)


def _at_length_only(long: Sequence[Predicted]) -> tuple[float, float]:
    """The highest load below every one that misses a goal, 0 = there is none; and the lowest that misses, or inf."""
    missed = min((run.load for run in long if not run.reached), default=math.inf)
    return max((run.load for run in long if run.reached and run.load < missed), default=0.0), missed


def _around(short: Sequence[Predicted], long: Sequence[Predicted]) -> tuple[float, float]:
    """The same by all runs, those at length before the others."""
    floor, ceiling = _at_length_only(long)
    between = [run for run in short if floor < run.load < ceiling]
    missed = min((run.load for run in between if not run.reached), default=ceiling)
    return max((run.load for run in between if run.reached and run.load < missed), default=floor), missed
