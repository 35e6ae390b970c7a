"""A profile in words, rows and columns: what `greenlane plan show` prints."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from greenlane_tools.page.quantities import amount, count, factor, milliseconds, share
from greenlane_tools.plan.measured import LEVELS, carried
from greenlane_tools.plan.profile import LOOPS, Profile, Route
from greenlane_tools.plan.standing import RouteStanding, ServiceStanding, standing_of

__all__ = ["COLUMNS", "missing", "rows_of", "sentences", "table_of", "unsaid"]

Row = dict[str, object]
#: Of the table for people.
COLUMNS: Final = (
    "route", "a second", "CPU", "longest", "phases", "I/O", "of the CPU", "knee", "headroom", "p50", "p99", "deadline",
)  # fmt: skip
_RUN: Final[Mapping[str, str]] = {
    "gevent": "gevent",
    "threads": "threads",
    "permits": "threads with permits",
    "asyncio": "asyncio",
    "celery": "Celery",
}
_FROM: Final[Mapping[str, str]] = {
    "recording": "recorded",
    "model": "written by hand",
}
#: Routes that a sentence names.
_MOST_NAMED: Final = 5
#: Of a limit by the knee where work varies: the smallest that fills the CPU.
_LIMIT_BY_KNEE: Final = 1.65
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


def sentences(profile: Profile) -> list[str]:
    """What it is, and how close the cliff is."""
    standing = standing_of(profile)
    return [_is(profile), *_cliff(profile, standing), *_unlocked(profile)]


def table_of(profile: Profile) -> list[Row]:
    """A row a route, values as people read them."""
    standing = standing_of(profile)
    return [_told(profile, route, at) for route, at in zip(profile.routes, standing.routes, strict=True)]


def rows_of(profile: Profile) -> list[Row]:
    """For programs: one row of the whole, one a route, one for each thing that is missing."""
    standing = standing_of(profile)
    whole: Row = {
        "view": "profile",
        "name": profile.name,
        "source": profile.source,
        "host": profile.host,
        "processes": profile.processes,
        "cores": profile.cores,
        "slots": profile.slots,
        "seconds": profile.seconds,
        "samples": profile.requests,
        "offered_per_s": profile.arrivals.rate_per_s,
        "dispersion": profile.arrivals.dispersion,
        "clients": profile.arrivals.clients,
        "overhead_ms": profile.overhead_ms,
        "memory_mb": profile.memory_mb,
        "utilisation_frac": standing.busy_frac,
        "cores_frac": standing.cores_frac,
        "knee": standing.knee,
        "headroom": standing.headroom,
        "said": sentences(profile),
    }
    routes = [_row(profile, route, at) for route, at in zip(profile.routes, standing.routes, strict=True)]
    lacks: list[Row] = [{"view": "missing", "said": sentence} for sentence in missing(profile)]
    notes: list[Row] = [{"view": "note", "said": note} for note in profile.notes]
    return [whole, *routes, *lacks, *notes]


def _is(profile: Profile) -> str:
    name = profile.name or "A service"
    seen = f"{count(profile.requests)} requests in {amount(profile.seconds)} s" if profile.requests else ""
    run = f"{count(profile.processes)} process{'es' if profile.processes > 1 else ''} on {_RUN[profile.host]}"
    cores = f"{count(profile.cores)} core{'s' if profile.cores > 1 else ''}"
    bursts = ""
    if profile.arrivals.dispersion is not None and profile.arrivals.dispersion > 1.5:
        bursts = f", in bursts ({amount(profile.arrivals.dispersion)} times a random stream's variance)"
    seen = f" ({seen})" if seen else ""
    rate = amount(profile.arrivals.rate_per_s)
    return f"{name}, {_FROM[profile.source]}{seen}: {rate} requests a second{bursts}; {run}, {cores}."


def _cliff(profile: Profile, standing: ServiceStanding) -> list[str]:
    """On-call question 16: how close to the cliff are we?"""
    if standing.headroom is None or standing.knee is None:
        return ["Its requests use no CPU: there is no cliff of the CPU, only the limits of what they call."]
    busy = f"Each process's one core (the GIL, the loop) is busy {share(standing.busy_frac)} of the time"
    if standing.bound == "cores":
        busy += f", the machine's cores {share(standing.cores_frac)}"
    full = f"at {factor(standing.headroom)} this load it is full" if standing.headroom > 1 else "it is full already"
    rate = amount(profile.arrivals.rate_per_s * standing.headroom)
    knee = (
        f"{amount(standing.knee)} requests in progress fill one process (1 + I/O by CPU); with work that varies a "
        f"limit of {max(1, round(standing.knee * _LIMIT_BY_KNEE))} loses nothing."
    )
    return [f"{busy}; {full} ({rate} a second). Percentiles rise before.", knee]


def _unlocked(profile: Profile) -> list[str]:
    found = [(each.unlocked_frac, each.route) for each in profile.routes if each.unlocked_frac]
    if not found or profile.host not in LOOPS:
        return []
    parts = ", ".join(f"{route} {share(frac)}" for frac, route in sorted(found, reverse=True)[:_MOST_NAMED])
    told = f"CPU without the GIL, of each route's own: {parts}."
    return [f"{told} The loop waits for that all the same; threads would run beside it."]


def _told(profile: Profile, route: Route, at: RouteStanding) -> Row:
    measured = profile.measured.get(route.route)
    found: Row = {
        "route": route.route,
        "a second": amount(route.rate_per_s),
        "CPU": milliseconds(at.cpu_ms),
        "longest": milliseconds(route.longest_ms),
        "phases": amount(route.phases),
        "I/O": milliseconds(at.rest_ms),
        "of the CPU": share(at.cpu_frac),
        "knee": amount(at.knee) if at.knee is not None else None,
        "headroom": factor(at.headroom) if at.headroom is not None else None,
        "deadline": milliseconds(route.deadline_ms) if route.deadline_ms is not None else None,
    }
    for name, level in (("p50", "p50_ms"), ("p99", "p99_ms")):
        ms = measured.quantile_ms(LEVELS[level]) if measured else None
        said = measured is not None and carried(LEVELS[level], measured.samples)
        found[name] = milliseconds(ms) if said and ms is not None else None
    return found


def _row(profile: Profile, route: Route, at: RouteStanding) -> Row:
    mean, measured = route.demand, profile.measured.get(route.route)
    levels = {name: measured.quantile_ms(of) if measured else None for name, of in LEVELS.items()}
    samples = measured.samples if measured else 0
    return {
        "view": "route",
        "endpoint": route.route,
        "lane": route.lane,
        "offered_per_s": route.rate_per_s,
        "samples": route.requests,
        "sequences": len(route.sequences),
        "cpu_ms_per_job": at.cpu_ms,
        "free_ms_per_job": mean.free_ms,
        "unlocked_frac": route.unlocked_frac,
        "io_ms_per_job": mean.io_ms,
        "held_ms_per_job": mean.held_ms,
        "longest_cpu_ms": route.longest_ms,
        "phases": route.phases,
        "upstreams": list(route.upstreams),
        "cpu_frac": at.cpu_frac,
        "knee": at.knee,
        "headroom": at.headroom,
        "deadline_ms": route.deadline_ms,
        "bytes_in": route.bytes_in,
        "bytes_out": route.bytes_out,
        "memory_mb": route.memory_mb,
        **{name: ms for name, ms in levels.items() if carried(LEVELS[name], samples)},
        "within_deadline_frac": measured.within_frac(route.deadline_ms) if measured and route.deadline_ms else None,
        "unsaid": unsaid(samples) if measured else [],
    }


def unsaid(samples: int) -> list[str]:
    """Percentiles that so few requests do not carry."""
    return [_WORDS[name] for name in _WANTED if not carried(LEVELS[name], samples)]


def missing(profile: Profile) -> list[str]:
    """The sentences, what matters most first; empty = it has everything."""
    return [sentence for of in (_short, _shape, _arrivals, _known) for sentence in of(profile)]


def _short(profile: Profile) -> list[str]:
    """Too few requests, by what cannot be said."""
    if profile.source == "model":
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
