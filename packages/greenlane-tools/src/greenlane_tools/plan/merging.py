"""Several profiles of one service as one: of other times, or of other machines at the same time.

Both are associative and do not depend on the order, up to the rounding of floating-point sums; which sequences are kept
and for how many requests each stands is exact (`plan.sampling`). What is not known in one of them is not
known of all where leaving that one out would tilt a mean (bytes, bursts).
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final, TypeVar

from greenlane.errors import PlanError
from greenlane_tools.plan.measured import Measured
from greenlane_tools.plan.profile import Arrivals, Mean, Profile, Route, Upstream
from greenlane_tools.plan.sampling import kept
from greenlane_tools.plan.steps import NOBODY, Step
from greenlane_tools.plan.steps import Sequence as Sampled

__all__ = ["When", "merged"]

T = TypeVar("T")

_ATTEMPT: Final = "merge the profiles"
#: Sentences that are kept.
_MOST_NOTES: Final = 40


class When(enum.Enum):
    """How the times of the profiles relate."""

    #: Seconds add up, rates are means over them; processes and cores are the most that there were.
    ANOTHER_TIME = "another time"
    #: Rates, processes and cores add up. Watched for about as long as each other.
    SAME_TIME = "same time"


def merged(profiles: Sequence[Profile], when: When = When.ANOTHER_TIME) -> Profile:
    """One profile of all; a single one comes back as it is.

    Raises: PlanError when there is none, or they contradict each other: different hosts, lanes of one route, names of
        which some are tokens.
    """
    if len(profiles) < 2:
        if not profiles:
            raise _error("profiles", 0, "at least one")
        return profiles[0]
    parts = [_counted(profile) for profile in profiles]
    rates, seconds = _rates(parts, when)
    total_s = math.fsum(each.seconds for each in parts) if when is When.ANOTHER_TIME else seconds
    names = sorted({route.route for each in parts for route in each.routes})
    found = [(route, part.seconds) for part in parts for route in part.routes]
    routes = [_route([each for each in found if each[0].route == name], when, total_s) for name in names]
    add = when is When.SAME_TIME
    return Profile(
        name=_same(part.name for part in parts) or "",
        source="merged",
        seconds=total_s,
        host=_equal(parts, "host", lambda part: part.host),
        processes=sum(part.processes for part in parts) if add else max(part.processes for part in parts),
        cores=sum(part.cores for part in parts) if add else max(part.cores for part in parts),
        slots=_same(part.slots for part in parts),
        switch_interval_ms=_same(part.switch_interval_ms for part in parts),
        overhead_ms=_mean((part.overhead_ms, _requests(part)) for part in parts),
        memory_mb=_most(part.memory_mb for part in parts),
        anonymous=_equal(parts, "anonymous", lambda part: part.anonymous),
        arrivals=Arrivals(
            rate_per_s=math.fsum(route.rate_per_s for route in routes),
            dispersion=_dispersion(parts, rates, when),
            clients=_same(part.arrivals.clients for part in parts),
        ),
        upstreams=_upstreams(parts),
        routes=tuple(sorted(routes, key=lambda each: (-each.rate_per_s, each.route))),
        measured=_measured(parts),
        notes=tuple(sorted({note for part in parts for note in part.notes})[:_MOST_NOTES]),
    )


def _counted(profile: Profile) -> Profile:
    """A model's weights are shares of a route; here they are to be requests, as those of a recording are."""
    if profile.seconds <= 0:
        hint = "say in it for how long it stands: seconds = 60"
        raise _error("seconds", profile.seconds, f"above 0 in profile {profile.name!r}: it is what it weighs", hint)
    if profile.source != "model":
        return profile
    return replace(profile, routes=tuple(_scaled(route, profile.seconds) for route in profile.routes))


def _scaled(route: Route, seconds: float) -> Route:
    by = route.rate_per_s * seconds / math.fsum(each.weight for each in route.sequences)
    if by <= 0:
        return route
    sequences = (replace(each, weight=each.weight * by, priority=each.priority * by) for each in route.sequences)
    return replace(route, sequences=tuple(sequences), threshold=route.threshold * by)


def _rates(parts: Sequence[Profile], when: When) -> tuple[list[float], float]:
    """Each one's rate, and for how long both together count as watched at the same time."""
    rates = [math.fsum(route.rate_per_s for route in part.routes) for part in parts]
    if when is When.ANOTHER_TIME or not math.fsum(rates):
        return rates, max(part.seconds for part in parts)
    return rates, math.fsum(map(_requests, parts)) / math.fsum(rates)


def _requests(part: Profile) -> float:
    return part.seconds * math.fsum(route.rate_per_s for route in part.routes)


def _route(found: Sequence[tuple[Route, float]], when: When, total_s: float) -> Route:
    routes = [route for route, _ in found]
    add = when is When.SAME_TIME
    # Means weigh as the sequences do: by requests. A merged profile's seconds are not those of each of its routes.
    weights = [(add and route.requests) or route.rate_per_s * seconds for route, seconds in found]
    name = routes[0].route
    upstreams = tuple(sorted({each for route in routes for each in route.upstreams}))
    sequences, threshold = kept(
        (_renamed(each, route.upstreams, upstreams) for route in routes for each in route.sequences),
        max(route.threshold for route in routes),
    )
    rate = math.fsum(route.rate_per_s for route in routes) if add else math.fsum(weights) / total_s
    return Route(
        route=name,
        rate_per_s=rate,
        sequences=sequences,
        upstreams=upstreams,
        lane=_one_lane(routes),
        deadline_ms=min((each.deadline_ms for each in routes if each.deadline_ms is not None), default=None),
        bytes_in=_known_mean([each.bytes_in for each in routes], weights),
        bytes_out=_known_mean([each.bytes_out for each in routes], weights),
        memory_mb=_most(each.memory_mb for each in routes),
        requests=sum(each.requests for each in routes),
        mean=Mean(
            cpu_ms=_mean((each.demand.cpu_ms, weight) for each, weight in zip(routes, weights, strict=True)),
            free_ms=_mean((each.demand.free_ms, weight) for each, weight in zip(routes, weights, strict=True)),
            io_ms=_mean((each.demand.io_ms, weight) for each, weight in zip(routes, weights, strict=True)),
            held_ms=_mean((each.demand.held_ms, weight) for each, weight in zip(routes, weights, strict=True)),
        ),
        threshold=threshold,
        unlocked_frac=_unlocked(routes, weights),
    )


def _unlocked(routes: Sequence[Route], weights: Sequence[float]) -> float | None:
    """Of the CPU of all."""
    cpu = [each.demand.cpu_ms * weight for each, weight in zip(routes, weights, strict=True)]
    return _known_mean([each.unlocked_frac for each in routes], cpu)


def _renamed(sequence: Sampled, before: tuple[str, ...], after: tuple[str, ...]) -> Sampled:
    if before == after:
        return sequence
    index = {number: after.index(name) for number, name in enumerate(before)}
    return replace(
        sequence, steps=tuple(Step(step.kind, step.ms, index.get(step.upstream, NOBODY)) for step in sequence.steps)
    )


def _one_lane(routes: Sequence[Route]) -> str | None:
    lanes = sorted({route.lane for route in routes if route.lane is not None})
    if len(lanes) > 1:
        rule = f"the same lane in all of them, not {' and '.join(map(repr, lanes))}"
        raise _error(f"{routes[0].route}.lane", lanes[0], rule, "correct one of them")
    return lanes[0] if lanes else None


def _dispersion(parts: Sequence[Profile], rates: Sequence[float], when: When) -> float | None:
    """Of the counts in 1 s: their variance adds up over machines, their second moments over times."""
    known = [part.arrivals.dispersion for part in parts]
    rate = math.fsum(rates)
    if None in known or not rate:
        return None
    variances = [float(each or 0.0) * each_rate for each, each_rate in zip(known, rates, strict=True)]
    if when is When.SAME_TIME:
        return math.fsum(variances) / rate
    seconds = [part.seconds for part in parts]
    total = math.fsum(seconds)
    mean = math.fsum(each * at for each, at in zip(seconds, rates, strict=True)) / total
    second = math.fsum(s * (v + r * r) for s, v, r in zip(seconds, variances, rates, strict=True)) / total
    return max(0.0, (second - mean * mean) / mean) if mean else None


def _upstreams(parts: Iterable[Profile]) -> tuple[Upstream, ...]:
    found: dict[str, int | None] = {}
    for part in parts:
        for each in part.upstreams:
            limits = [limit for limit in (found.get(each.name), each.limit) if limit is not None]
            found[each.name] = min(limits, default=None)
    return tuple(Upstream(name, found[name]) for name in sorted(found))


def _measured(parts: Iterable[Profile]) -> Mapping[str, Measured]:
    found: dict[str, list[Measured]] = {}
    for part in parts:
        for name, each in part.measured.items():
            found.setdefault(name, []).append(each)
    return {name: reduce(Measured.plus, found[name]) for name in sorted(found)}


def _mean(pairs: Iterable[tuple[float, float]]) -> float:
    """By weights; 0 without any."""
    known = list(pairs)
    total = math.fsum(weight for _, weight in known)
    return math.fsum(value * weight for value, weight in known) / total if total else 0.0


def _known_mean(values: Sequence[float | None], weights: Sequence[float]) -> float | None:
    known = [value for value in values if value is not None]
    return _mean(zip(known, weights, strict=True)) if len(known) == len(values) else None


def _most(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)


def _same(values: Iterable[T]) -> T | None:
    """What all of them have; None where they differ."""
    found = list(values)
    return found[0] if all(each == found[0] for each in found) else None


def _equal(parts: Sequence[Profile], name: str, of: Callable[[Profile], T]) -> T:
    found = [of(part) for part in parts]
    for each in found:
        if each != found[0]:
            rule = f"the same in all of them, not also {found[0]!r}"
            hint = "merge profiles of one service on one kind of host" if name == "host" else "give all names, or none"
            raise _error(name, each, rule, hint)
    return found[0]


def _error(name: str, value: object, rule: str, hint: str = "") -> PlanError:
    return PlanError(_ATTEMPT, name=name, value=value, rule=rule, hint=hint)
