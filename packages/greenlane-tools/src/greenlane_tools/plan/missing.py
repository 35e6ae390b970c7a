"""What a profile does not know, or not well enough, and what would tell: each a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from greenlane_tools.page.quantities import amount, count, factor
from greenlane_tools.plan.measured import LEVELS, carried
from greenlane_tools.plan.profile import LOOPS, Profile, Route
from greenlane_tools.plan.standing import standing_of

__all__ = ["missing", "unsaid"]

#: Routes that a sentence names.
_MOST_NAMED: Final = 5
_WORDS: Final = {"p50_ms": "p50", "p95_ms": "p95", "p99_ms": "p99", "p999_ms": "p99.9"}
#: What a plan is asked for: p99.9 is said where there is enough for it, and not missed else.
_WANTED: Final = ("p50_ms", "p95_ms", "p99_ms")
#: Requests that they need, as `carried` has it.
_LEAST: Final = {"p50": 20, "p95": 200, "p99": 1000}
_MUCH: Final = 1000
#: Of all CPU: a route with less is not worth a sentence on it.
_MUCH_FRAC: Final = 0.05
#: Sequences of which the variation is known.
_FEW: Final = 10


def unsaid(samples: int) -> list[str]:
    """Percentiles that so few requests do not carry."""
    return [_WORDS[name] for name in _WANTED if not carried(LEVELS[name], samples)]


def missing(profile: Profile) -> list[str]:
    """The sentences, what matters most first; empty = it has everything."""
    return [sentence for of in (_short, _shape, _arrivals, _known) for sentence in of(profile)]


def _short(profile: Profile) -> list[str]:
    """Too few requests, by what cannot be said."""
    if profile.source in ("model", "live"):
        return []
    by_what: dict[tuple[str, ...], list[Route]] = {}
    for route in profile.routes:
        by_what.setdefault(tuple(unsaid(route.requests)), []).append(route)
    said = []
    for what, routes in by_what.items():
        if not what:
            continue
        needed = ", ".join(f"{name} from {count(_LEAST[name])}" for name in what)
        longer = max(_LEAST[what[-1]] / max(1, route.requests) for route in routes)
        hint = f"record {factor(longer)} as long" if longer < _MUCH else "record for much longer"
        said.append(f"Too few requests of {_names(routes, numbers=True)} to say {', '.join(what)} ({needed}): {hint}.")
    return said


def _shape(profile: Profile) -> list[str]:
    """How requests differ."""
    said = []
    if profile.means_only:
        said.append("Means only: how requests differ, and so percentiles, is not known; a recording tells.")
    else:
        flat = [route for route in profile.routes if len(route.sequences) < _FEW]
        if flat and profile.source == "model":
            said.append(f"No variation is written for {_names(flat)}: the same work each time. Real tails are longer.")
    said += _locked(profile)
    standing = standing_of(profile)
    if standing.headroom is not None and standing.headroom < 1:
        full = "each process's one core (the GIL, the loop)" if standing.bound == "process" else "the machine's cores"
        more = max(standing.busy_frac, standing.cores_frac)
        said.append(f"The requests need {amount(more)} times {full}: this cannot be served, or the rates are wrong.")
    return said


def _locked(profile: Profile) -> list[str]:
    """Of whose CPU it is not known whether it needs the GIL; on threads nothing of it would be asked."""
    if profile.host not in LOOPS or any(route.demand.free_ms for route in profile.routes):
        return []
    unknown = [route for route in profile.routes if route.unlocked_frac is None]
    if len(unknown) == len(profile.routes):
        return [
            "What of the CPU could run without the GIL is not known: all of it counts as with it. A recording with "
            "stacks tells, of routes that compute for some seconds in it."
        ]
    whole = math.fsum(route.rate_per_s * route.demand.cpu_ms for route in profile.routes)
    much = [route for route in unknown if route.rate_per_s * route.demand.cpu_ms >= _MUCH_FRAC * whole]
    if not much:
        return []
    return [
        f"Of {_names(much)} it is not known what of the CPU could run without the GIL: all of it counts as with it."
    ]


def _arrivals(profile: Profile) -> list[str]:
    if profile.arrivals.clients is not None:
        return [
            f"The load was a closed loop of {profile.arrivals.clients} clients, a benchmark: its rate is what the "
            "service could do, not what a public asks for."
        ]
    if profile.arrivals.dispersion is None and profile.source != "model":
        return ["Whether requests come in bursts is not known (that takes 10 s of a recording): taken as random."]
    return []


def _known(profile: Profile) -> list[str]:
    """What nobody can measure, or a recording does not hold."""
    due = [route for route in profile.routes if route.deadline_ms is None]
    sized = any(route.bytes_in is not None or route.bytes_out is not None for route in profile.routes)
    said = []
    if due and len(due) < len(profile.routes):
        said.append(f"No deadline is known of {_names(due)}.")
    elif due:
        said.append("No deadline is known: a goal must name one, or give deadline_ms with --known.")
    if not sized:
        said.append("No bytes are known: what splitting the service would cost on the wire cannot be said (--known).")
    return said


def _names(routes: Sequence[Route], *, numbers: bool = False) -> str:
    named = [f"{route.route} ({count(route.requests)})" if numbers else route.route for route in routes[:_MOST_NAMED]]
    rest = len(routes) - len(named)
    return ", ".join(named) + (f" and {rest} more" if rest else "")
