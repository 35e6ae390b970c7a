"""Tasks by whom they call: one task that calls one of ten upstreams is ten kinds of work, each with a slot of its own.

A plan that took them for one would find nobody to spare when an upstream hangs, and no upstream to hold back.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.route import NOBODY, Route, Sequence, simulated_route

__all__ = ["keyed"]

#: A request is its upstream's if so much of its I/O is.
_MOST_FRAC: Final = 0.5
#: More kinds than this are no kinds: each address would be one.
_MOST_KINDS: Final = 64
_WAITS: Final = ("io", "held")


def keyed(profile: Profile) -> Profile:
    """The profile with each task that calls several upstreams, one at a time, told apart by them; others as they are.

    Only of a task system: who serves HTTP has routes for that.
    """
    if profile.host != "celery":
        return profile
    routes = tuple(part for route in profile.routes for part in _parts(route))
    if len(routes) == len(profile.routes):
        return profile
    kept = {route.route for route in routes}
    said = "Tasks are told apart by the upstream that they wait for most."
    return replace(
        profile,
        routes=tuple(sorted(routes, key=lambda each: (-each.rate_per_s, each.route))),
        measured={name: each for name, each in profile.measured.items() if name in kept},
        notes=(*profile.notes, said),
    )


def _parts(route: Route) -> Iterator[Route]:
    """The route, or one for each upstream, with the exact means of the whole in their sequences."""
    exact = simulated_route(route, "held", 0.0)
    by_upstream: dict[int, list[Sequence]] = {}
    for each in exact.sequences:
        by_upstream.setdefault(_upstream(each), []).append(each)
    if not 1 < len(set(by_upstream) - {NOBODY}) <= _MOST_KINDS:
        yield route
        return
    whole = math.fsum(each.weight for each in exact.sequences)
    for upstream, sequences in sorted(by_upstream.items()):
        share = math.fsum(each.weight for each in sequences) / whole
        yield replace(
            exact,
            route=route.route if upstream == NOBODY else f"{route.route} to {route.upstreams[upstream]}",
            rate_per_s=route.rate_per_s * share,
            requests=round(route.requests * share),
            sequences=tuple(sequences),
            threshold=0.0,
        )


def _upstream(sequence: Sequence) -> int:
    """The one that most of its I/O is for; `NOBODY` = none is that."""
    waited: dict[int, float] = {}
    for step in sequence.steps:
        if step.kind in _WAITS:
            waited[step.upstream] = waited.get(step.upstream, 0.0) + step.ms
    whole = math.fsum(waited.values())
    most = max(waited, key=lambda upstream: waited[upstream], default=NOBODY)
    return most if whole and waited[most] >= _MOST_FRAC * whole else NOBODY
