"""What was recorded of a goal: its percentile, its share in time, both with intervals, and whether that is enough.

A goal stands as it was given. Where too few requests were seen to plan for its percentile, that is reported, with the
number that it takes. Nothing easier is judged in its place.

Intervals: of a share Wilson's (JASA 22, 1927), of a percentile the two requests, counted from the slowest, between
which it is by the binomial law. Neighbours in time are late together: the true intervals are rather wider.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.page.quantities import count, milliseconds
from greenlane_tools.plan.goal import Goal, level_said
from greenlane_tools.plan.measured import carried
from greenlane_tools.plan.profile import Profile, Route

__all__ = ["Seen", "Share", "enough", "needed", "per_cent", "seen"]

_TAIL: Final = 0.025
_Z: Final = 1.96
#: A lower percentile is no goal.
_LOWEST: Final = 50


@dataclass(frozen=True, slots=True)
class Share:
    """A share and the ends of its 95 % interval."""

    at: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Seen:
    """What was recorded of one goal.

    Args:
        latency_ms: at the goal's percentile; its interval of 95 % is from `low_ms` to `high_ms`, None = above all.
        within: share of the requests that took at most the goal's limit.
    """

    goal: Goal
    samples: int
    latency_ms: float
    low_ms: float
    high_ms: float | None
    within: Share

    @property
    def missed(self) -> bool:
        """Whether the recorded requests missed the goal."""
        return self.within.at < self.goal.share

    @property
    def surely_missed(self) -> bool:
        """Whether chance alone does not explain that."""
        return self.within.high < self.goal.share

    @property
    def surely_met(self) -> bool:
        """Whether the recorded requests met the goal, beyond chance."""
        return self.within.low >= self.goal.share

    def said(self) -> str:
        """A sentence."""
        high = f"more than {milliseconds(self.latency_ms)}" if self.high_ms is None else milliseconds(self.high_ms)
        came = "missed" if self.missed else "met"
        if self.missed and not self.surely_missed:
            came = "missed, but that may be chance"
        return (
            f"Recorded: {self.goal.route} {level_said(self.goal.share)} {milliseconds(self.latency_ms)} "
            f"[{milliseconds(self.low_ms)} to {high}], {per_cent(self.within.at)} of {count(self.samples)} requests "
            f"within {milliseconds(self.goal.limit_ms)} [{per_cent(self.within.low)} to {per_cent(self.within.high)}]: "
            f"the goal is {came}."
        )


def seen(goal: Goal, profile: Profile) -> Seen | None:
    """What the recording has of it; None = it has no latencies of this route."""
    measured = profile.measured.get(goal.route)
    if measured is None or not measured.samples:
        return None
    number = measured.samples
    within = measured.within_frac(goal.limit_ms) or 0.0
    beyond = 1 - goal.share
    slowest = _below(number, beyond, 1 - _TAIL)
    fastest = _below(number, beyond, _TAIL) - 1
    return Seen(
        goal,
        number,
        measured.ranked_ms(math.ceil(goal.share * number - 1e-9)),
        measured.ranked_ms(max(1, number - slowest)),
        measured.ranked_ms(number - fastest) if fastest >= 0 else None,
        _share(within, number),
    )


def enough(goal: Goal, profile: Profile) -> bool:
    """Whether the requests that were seen carry its percentile; of a model written by hand all is known."""
    return profile.source == "model" or carried(goal.share, profile.route(goal.route).requests)


def needed(goals: Sequence[Goal], profile: Profile) -> str:
    """How many requests goals take that are not carried, and how to get them; goals is not empty."""
    goal = max(goals, key=lambda each: _wanted(each) / max(1, profile.route(each.route).requests))
    route = profile.route(goal.route)
    wanted = _wanted(goal)
    seconds = math.ceil(1.1 * wanted / route.rate_per_s) if route.rate_per_s else 0
    others = f" (and of {len(goals) - 1} more)" if len(goals) > 1 else ""
    how = f": record for {_span(seconds)} at this load (greenlane record --seconds {seconds})" if seconds else ""
    highest = math.floor(100 - 1000 / route.requests) if route.requests else 0
    carry = f" They carry a goal of at most p{highest}." if highest >= _LOWEST else ""
    return (
        f"Too few requests to plan for {level_said(goal.share)}: {count(route.requests)} of {goal.route}{others} were "
        f"seen, it takes {count(wanted)}{how}.{carry}{_known(route, profile)}"
    )


def _known(route: Route, profile: Profile) -> str:
    """What its time was, on average, which few requests tell as well."""
    measured, mean = profile.measured.get(route.route), route.demand
    if measured is None or not measured.samples:
        return ""
    whole_ms, cpu_ms, io_ms = measured.sum_ms / measured.samples, mean.cpu_ms + mean.free_ms, mean.io_ms + mean.held_ms
    waits_ms = max(0.0, whole_ms - cpu_ms - io_ms)
    return (
        f" On average one took {milliseconds(whole_ms)}: {milliseconds(cpu_ms)} CPU, {milliseconds(io_ms)} I/O, and "
        f"{milliseconds(waits_ms)} of waiting (`greenlane report` says for what)."
    )


def per_cent(share: float) -> str:
    """A share near one as people tell nines apart: "99.95 %", "99.9 %", "100 %"."""
    if not math.isfinite(share):
        return "-"
    places = 1 if share < 0.99 else 2 if share < 0.9995 else 3
    return f"{share * 100:.{places}f} %" if share < 1 else "100 %"


def _wanted(goal: Goal) -> int:
    return math.ceil(10 / (1 - goal.share) - 1e-6)


def _span(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def _below(number: int, chance: float, wanted: float) -> int:
    """The least k with P(K <= k) >= wanted, of K successes in this many trials."""
    log_odds = math.log(chance) - math.log1p(-chance)
    log_p = number * math.log1p(-chance)
    total = math.exp(log_p)
    k = 0
    while total < wanted and k < number:
        log_p += math.log(number - k) - math.log(k + 1) + log_odds
        k += 1
        total += math.exp(log_p)
    return k


def _share(at: float, number: int) -> Share:
    square = _Z**2 / number
    middle = at + square / 2
    half = math.sqrt(square * (at * (1 - at) + square / 4))
    return Share(at, max(0.0, (middle - half) / (1 + square)), min(1.0, (middle + half) / (1 + square)))
