"""Two profiles of one service, before and after a release: what of a request's cost has changed, beyond noise.

Rates are taken as they were before, so that more visitors do not read as a slower release. Intervals are from a
bootstrap over the sequences of each profile: each route's sample is drawn again, with its weights, and the statistic is
computed again. They hold what requests differ by. CPU is given at the speed that the cores had before, by the loop of
fixed work that both recordings timed; without it a slower machine reads as a slower release. What a machine does from
day to day is in neither, so a change is one only if it is also larger than `NOISE_FRAC`.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import stdev
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.page.quantities import factor, milliseconds
from greenlane_tools.plan.band import full_load
from greenlane_tools.plan.profile import LOOPS, Profile
from greenlane_tools.plan.route import Route
from greenlane_tools.plan.set_up import SetUp

#: Differences of CPU below this are what a machine does by itself from day to day. Arbitrary.
NOISE_FRAC: Final = 0.03
#: Of 100 comparisons of the same, about one is outside: a diff makes dozens of them.
_Z: Final = 2.576
#: Fewer sequences do not tell their own variation.
_LEAST_SEQUENCES: Final = 10
_RESAMPLES: Final = 200
Row = dict[str, object]
COLUMNS: Final = ("route", "what", "before", "after", "change", "interval", "is")
_ALL: Final = "(all)"


class Measure(enum.Enum):
    """What is compared."""

    CPU = "cpu_ms"
    IO = "io_ms"


_WHAT: Final = {Measure.CPU: "CPU a request", Measure.IO: "I/O a request"}


@dataclass(frozen=True)
class ProfileDifference:
    """One number of one route; "" = of the whole service."""

    route: str
    measure: Measure
    old: float
    new: float
    #: new / old.
    ratio: float
    #: Interval of the ratio at 99 %. None = how requests differ is not known.
    low: float | None
    high: float | None

    @property
    def changed(self) -> bool | None:
        """Beyond noise. None = cannot be said."""
        if self.low is None or self.high is None:
            return None
        return not self.low <= 1 <= self.high and abs(self.ratio - 1) > NOISE_FRAC


@dataclass(frozen=True)
class ProfileComparison:
    """Everything."""

    old: Profile
    new: Profile
    differences: Sequence[ProfileDifference]
    #: Routes of only one of them.
    gone: Sequence[str]
    come: Sequence[str]
    #: Times the load before at which the service is full, before and after.
    full: tuple[float, float]
    #: How many times slower the cores were; None = not known of both.
    slower: float | None = None

    def of(self, route: str, measure: Measure) -> ProfileDifference | None:
        """One of them."""
        return next((each for each in self.differences if (each.route, each.measure) == (route, measure)), None)


def compared(old: Profile, new: Profile, *, seed: int = 1) -> ProfileComparison:
    """What has changed.

    Args:
        seed: of the bootstrap.

    Raises: PlanError when they have no route in common.

    Cost: about 10 ms a route.
    """
    names = [route.route for route in old.routes if any(each.route == route.route for each in new.routes)]
    if not names:
        mine, other = old.routes[0].route, new.routes[0].route
        rule = f"a route of both; the first of the one is {mine!r}, of the other {other!r}"
        hint = "compare two profiles of one service"
        raise PlanError("compare the profiles", name="routes", value=0, rule=rule, hint=hint)
    chance = random.Random(seed)
    slower = new.loop_us / old.loop_us if new.loop_us and old.loop_us else None
    then = _at_rates(new, old).slowed(1 / (slower or 1.0))
    before, after = _Drawn(old, names, chance), _Drawn(then, names, chance)
    found = [
        difference
        for name in ("", *names)
        for measure in Measure
        if (difference := _difference(name, measure, before, after)) is not None
    ]
    return ProfileComparison(
        old=old,
        new=new,
        differences=found,
        gone=[route.route for route in old.routes if route.route not in names],
        come=[route.route for route in new.routes if route.route not in names],
        full=(_full_at(old), _full_at(then)),
        slower=slower,
    )


def _at_rates(profile: Profile, rates: Profile) -> Profile:
    by_name = {route.route: route.rate_per_s for route in rates.routes}
    routes = (replace(route, rate_per_s=by_name.get(route.route, route.rate_per_s)) for route in profile.routes)
    return replace(profile, routes=tuple(routes))


class _Drawn:
    """Costs of a profile's requests, by route and "" = the mean of all; first as they are, then of its resamples."""

    def __init__(self, profile: Profile, names: Sequence[str], chance: random.Random) -> None:
        # A model says all that there is: nothing of it is left to chance. What only one profile has must not make
        # everything unknown.
        exact = profile.source == "model"
        self.known = {route.route: exact or _varies(route) for route in profile.routes}
        self.known[""] = all(self.known[name] for name in names)
        self._costs = {route.route: _costs(route, profile, chance, exact=exact) for route in profile.routes}
        rates = {route.route: route.rate_per_s for route in profile.routes if route.rate_per_s}
        if whole := math.fsum(rates.values()):
            columns = [[(name, self._costs[name][draw]) for name in rates] for draw in range(_RESAMPLES + 1)]
            self._costs[""] = [
                {each: math.fsum(rates[name] * cost[each] for name, cost in column) / whole for each in Measure}
                for column in columns
            ]

    def values(self, name: str, measure: Measure) -> list[float]:
        """One number, then the same of each resample; empty where it is none."""
        found = [cost[measure] for cost in self._costs.get(name, ())]
        return found if found and min(found) > 0 else []


def _varies(route: Route) -> bool:
    return len(route.sequences) >= _LEAST_SEQUENCES


def _costs(route: Route, profile: Profile, chance: random.Random, *, exact: bool) -> list[dict[Measure, float]]:
    """What a request takes, around the exact means. On a loop held time is CPU to the others."""
    mean, held = route.demand, profile.host in LOOPS
    rows = [
        (each.weight, *(each.weight * each.ms(kind) for kind in ("cpu", "free", "io", "held")))
        for each in route.sequences
    ]
    whole, found = _ratios(rows), []
    for draw in range(_RESAMPLES + 1):
        drawn = whole if exact or not draw else _ratios(chance.choices(rows, k=len(rows)))
        cpu, free, io, kept = (one / other if other else 1.0 for one, other in zip(drawn, whole, strict=True))
        computes = mean.cpu_ms * cpu + profile.overhead_ms
        rest, blocks = mean.io_ms * io + mean.free_ms * free, mean.held_ms * kept
        cpu_ms, io_ms = (computes + blocks, rest) if held else (computes, rest + blocks)
        found.append({Measure.CPU: cpu_ms, Measure.IO: io_ms})
    return found


def _ratios(rows: Sequence[tuple[float, ...]]) -> list[float]:
    total, *sums = map(sum, zip(*rows, strict=True))
    return [each / total for each in sums]


def _difference(name: str, measure: Measure, before: _Drawn, after: _Drawn) -> ProfileDifference | None:
    """None where there is nothing to compare: neither has I/O, or a route has no CPU."""
    olds, news = before.values(name, measure), after.values(name, measure)
    if not olds or not news:
        return None
    (old, *_), (new, *_) = olds, news
    if not (before.known[name] and after.known[name]):
        return ProfileDifference(name, measure, old, new, new / old, None, None)
    error = math.hypot(*(stdev(map(math.log, values[1:])) for values in (olds, news)))
    middle, half = math.log(new / old), _Z * error
    return ProfileDifference(name, measure, old, new, new / old, math.exp(middle - half), math.exp(middle + half))


def answers(found: ProfileComparison) -> list[str]:
    """What a person asks after a release, most important first."""
    said = [_full(found), *_routes(found), _cores(found)]
    if found.come:
        said.append(f"New: {', '.join(found.come)}.")
    if found.gone:
        said.append(f"No longer there: {', '.join(found.gone)}.")
    if any(each.changed is None for each in found.differences):
        said.append("Where no interval stands how requests differ is not known: whether it is noise cannot be said.")
    return [sentence for sentence in said if sentence]


def table_of(found: ProfileComparison) -> list[Row]:
    """A row a number that changed, or a few that did not."""
    changed = [each for each in found.differences if each.changed]
    return [_told(each) for each in changed or found.differences]


def rows_of(found: ProfileComparison) -> list[Row]:
    """For programs: everything that was compared."""
    rows: list[Row] = [
        {
            "view": "difference",
            "endpoint": each.route,
            "measure": each.measure.value,
            "old": each.old,
            "new": each.new,
            "ratio": each.ratio,
            "ratio_low": each.low,
            "ratio_high": each.high,
            "changed": each.changed,
        }
        for each in found.differences
    ]
    rows += [{"view": "gone", "endpoint": name} for name in found.gone]
    rows += [{"view": "new", "endpoint": name} for name in found.come]
    return [{"view": "answer", "said": answers(found)}, *rows]


def _full_at(profile: Profile) -> float:
    return full_load(profile, SetUp(profile.host, profile.processes, profile.cores))


def _full(found: ProfileComparison) -> str:
    of, (old, new) = found.of("", Measure.CPU), found.full
    if of is None or not (math.isfinite(old) and math.isfinite(new)):
        return ""
    if not of.changed:
        known = "not changed beyond noise" if of.changed is False else "no interval"
        return f"At the load before, the service is full at {factor(old)} that load, now at {factor(new)} ({known})."
    way = "nearer" if new < old else "further away"
    return f"The cliff is {way}: the service was full at {factor(old)} the load before, now at {factor(new)}."


def _cores(found: ProfileComparison) -> str:
    if found.slower is None:
        return "How fast the cores were is not in both recordings: a slower machine would read as a slower release."
    if abs(found.slower - 1) <= NOISE_FRAC:
        return ""
    way, times = ("slower", found.slower) if found.slower > 1 else ("faster", 1 / found.slower)
    return f"The cores were {times:.2f} times {way} than before; CPU is given at the speed that they had before."


def _routes(found: ProfileComparison) -> list[str]:
    """What each changed route costs now."""
    said = []
    for measure in Measure:
        changed = [each for each in found.differences if each.route and each.measure is measure and each.changed]
        for each in sorted(changed, key=lambda one: -abs(one.ratio - 1)):
            times = f"{milliseconds(each.old)} before, {milliseconds(each.new)} now"
            said.append(f"{each.route}: {_WHAT[measure]} {times} ({_percent(each.ratio)}, {_interval(each)}).")
    known = [each for each in found.differences if each.changed is not None]
    if known and not any(each.changed for each in known):
        said.append(f"No request costs more or less than before, beyond noise and {NOISE_FRAC:.0%}.")
    return said


def _told(each: ProfileDifference) -> Row:
    return {
        "route": each.route or _ALL,
        "what": _WHAT[each.measure],
        "before": milliseconds(each.old),
        "after": milliseconds(each.new),
        "change": _percent(each.ratio),
        "interval": _interval(each) if each.low is not None else None,
        "is": {True: "changed", False: "noise", None: "not known"}[each.changed],
    }


def _interval(each: ProfileDifference) -> str:
    if each.low is None or each.high is None:
        return "no interval"
    return f"{_percent(each.low)} to {_percent(each.high)}"


def _percent(ratio: float) -> str:
    return f"{(ratio - 1) * 100:+.0f} %" if abs(ratio - 1) >= 0.0995 else f"{(ratio - 1) * 100:+.1f} %"
