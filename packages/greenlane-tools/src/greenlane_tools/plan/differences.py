"""Two profiles of one service, before and after a release: what of a request's cost has changed, beyond noise.

Rates are taken as they were before, so that more visitors do not read as a slower release. Intervals are from a
bootstrap over the sequences of each profile: each route's sample is drawn again, with its weights, and the statistic is
computed anew. They hold what requests differ by; a machine that was slower that day is not in them, so a change is one
only if it is also larger than `NOISE_FRAC`.
"""

from __future__ import annotations

import enum
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import stdev
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.page.quantities import amount, factor, milliseconds
from greenlane_tools.plan.profile import Mean, Profile, Route
from greenlane_tools.plan.standing import RouteStanding, ServiceStanding, standing_of

__all__ = [
    "COLUMNS",
    "NOISE_FRAC",
    "ProfileComparison",
    "ProfileDifference",
    "Measure",
    "answers",
    "compared",
    "rows_of",
    "table_of",
]

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
    KNEE = "knee"
    #: Times the load before at which the CPU is full; of a route: its own load, the others as they are.
    HEADROOM = "headroom"


_WHAT: Final = {
    Measure.CPU: "CPU a request",
    Measure.IO: "I/O a request",
    Measure.KNEE: "knee",
    Measure.HEADROOM: "headroom",
}


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
    before = _Drawn(old, old, names, chance)
    after = _Drawn(new, old, names, chance)
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
    )


class _View:
    """A standing, by route."""

    def __init__(self, standing: ServiceStanding) -> None:
        self._standing = standing
        self._routes: Mapping[str, RouteStanding] = {route.route: route for route in standing.routes}

    def value(self, name: str, measure: Measure) -> float | None:
        """One number; "" = of all routes together."""
        if name:
            return _of_route(self._routes[name], measure)
        if measure is Measure.KNEE:
            return self._standing.knee
        return self._standing.headroom if measure is Measure.HEADROOM else _per_request(self._standing, measure)


class _Drawn:
    """A profile at given rates: its standing, and that of resamples of it."""

    def __init__(self, profile: Profile, rates: Profile, names: Sequence[str], chance: random.Random) -> None:
        by_name = {route.route: route.rate_per_s for route in rates.routes}
        routes = tuple(
            replace(route, rate_per_s=by_name.get(route.route, route.rate_per_s), mean=route.demand)
            for route in profile.routes
        )
        self._profile = replace(profile, routes=routes)
        self.view = _View(standing_of(self._profile))
        # A model says all that there is: nothing of it is left to chance. What only one profile has must not make
        # everything unknown.
        exact = profile.source == "model"
        self.known = {route.route: exact or _varies(route) for route in routes}
        self.known[""] = all(self.known[name] for name in names)
        draws = [[route.demand] * _RESAMPLES if exact else _means(route, chance) for route in routes]
        self.draws = [self._resampled([of[draw] for of in draws]) for draw in range(_RESAMPLES)]

    def _resampled(self, means: Sequence[Mean]) -> _View:
        pairs = zip(self._profile.routes, means, strict=True)
        routes = tuple(replace(route, mean=mean) for route, mean in pairs)
        return _View(standing_of(replace(self._profile, routes=routes)))


def _varies(route: Route) -> bool:
    return len(route.sequences) >= _LEAST_SEQUENCES


def _means(route: Route, chance: random.Random) -> list[Mean]:
    """Means of resamples, around the exact one."""
    exact = route.demand
    rows = [
        (each.weight, *(each.weight * each.ms(kind) for kind in ("cpu", "free", "io", "held")))
        for each in route.sequences
    ]
    whole = _ratios(rows)
    found = []
    for _ in range(_RESAMPLES):
        drawn = _ratios(chance.choices(rows, k=len(rows)))
        by = [one / other if other else 1.0 for one, other in zip(drawn, whole, strict=True)]
        found.append(Mean(exact.cpu_ms * by[0], exact.free_ms * by[1], exact.io_ms * by[2], exact.held_ms * by[3]))
    return found


def _ratios(rows: Sequence[tuple[float, ...]]) -> list[float]:
    total, *sums = map(sum, zip(*rows, strict=True))
    return [each / total for each in sums]


def _of_route(route: RouteStanding, measure: Measure) -> float | None:
    match measure:
        case Measure.CPU:
            return route.cpu_ms
        case Measure.IO:
            return route.rest_ms
        case Measure.KNEE:
            return route.knee
        case Measure.HEADROOM:
            return route.headroom


def _per_request(standing: ServiceStanding, measure: Measure) -> float | None:
    """The mean of all requests."""
    rate = math.fsum(route.rate_per_s for route in standing.routes)
    if not rate:
        return None
    costs = ((route.cpu_ms if measure is Measure.CPU else route.rest_ms, route.rate_per_s) for route in standing.routes)
    return math.fsum(cost * per_s for cost, per_s in costs) / rate


def _difference(name: str, measure: Measure, before: _Drawn, after: _Drawn) -> ProfileDifference | None:
    """None where there is nothing to compare: neither has I/O, or a route has no CPU."""
    old, new = before.view.value(name, measure), after.view.value(name, measure)
    if old is None or new is None or old <= 0 or new <= 0:
        return None
    known = before.known[name] and after.known[name]
    logs = [_logs(each, name, measure) for each in (before, after)]
    if not known or any(len(each) < _RESAMPLES for each in logs):
        return ProfileDifference(name, measure, old, new, new / old, None, None)
    error = math.hypot(*(stdev(each) for each in logs))
    middle, half = math.log(new / old), _Z * error
    return ProfileDifference(name, measure, old, new, new / old, math.exp(middle - half), math.exp(middle + half))


def _logs(drawn: _Drawn, name: str, measure: Measure) -> list[float]:
    values = [view.value(name, measure) for view in drawn.draws]
    return [math.log(value) for value in values if value is not None and value > 0]


def answers(found: ProfileComparison) -> list[str]:
    """What a person asks after a release, most important first."""
    said = [_headroom(found), *_routes(found)]
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


def _headroom(found: ProfileComparison) -> str:
    of = found.of("", Measure.HEADROOM)
    if of is None:
        return ""
    if not of.changed:
        known = "not changed beyond noise" if of.changed is False else "no interval"
        return f"At the load before, the CPU is full at {factor(of.old)} that load, now at {factor(of.new)} ({known})."
    way = "nearer" if of.new < of.old else "further away"
    cliff = f"The cliff is {way}: the CPU was full at {factor(of.old)} the load before, now at {factor(of.new)}"
    return f"{cliff} ({_interval(of)})."


def _routes(found: ProfileComparison) -> list[str]:
    """What each changed route costs now, and what that does to a limit that was set by its knee."""
    said = []
    cpu = [each for each in found.differences if each.route and each.measure is Measure.CPU and each.changed]
    for each in sorted(cpu, key=lambda one: -abs(one.ratio - 1)):
        knee = found.of(each.route, Measure.KNEE)
        text = f"{each.route}: CPU a request {milliseconds(each.old)} before, {milliseconds(each.new)} now"
        text += f" ({_percent(each.ratio)}, {_interval(each)})"
        if knee is not None and knee.changed and round(knee.old) != round(knee.new):
            text += f"; a limit of {round(knee.old)} is now {round(knee.new)}"
        said.append(f"{text}.")
    io = [each for each in found.differences if each.route and each.measure is Measure.IO and each.changed]
    for each in sorted(io, key=lambda one: -abs(one.ratio - 1)):
        times = f"{milliseconds(each.old)} before, {milliseconds(each.new)} now"
        said.append(f"{each.route}: I/O a request {times} ({_percent(each.ratio)}, {_interval(each)}).")
    known = [each for each in found.differences if each.changed is not None]
    if known and not any(each.changed for each in known):
        said.append(f"No request costs more or less than before, beyond noise and {NOISE_FRAC:.0%}.")
    return said


def _told(each: ProfileDifference) -> Row:
    numbers = milliseconds if each.measure in (Measure.CPU, Measure.IO) else amount
    times = factor if each.measure is Measure.HEADROOM else numbers
    return {
        "route": each.route or _ALL,
        "what": _WHAT[each.measure],
        "before": times(each.old),
        "after": times(each.new),
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
