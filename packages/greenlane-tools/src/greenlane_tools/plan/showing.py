"""A profile in words, rows and columns: what `greenlane plan show` prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from greenlane_tools.page.quantities import amount, count, factor, milliseconds, share
from greenlane_tools.plan.measured import LEVELS, carried
from greenlane_tools.plan.missing import missing, unsaid
from greenlane_tools.plan.profile import LOOPS, Profile, Route
from greenlane_tools.plan.standing import RouteStanding, Standing, standing_of

__all__ = ["COLUMNS", "rows_of", "sentences", "table_of"]

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
    "live": "from live metrics",
    "model": "written by hand",
    "merged": "merged",
}
#: Routes that a sentence names.
_MOST_NAMED: Final = 5
#: Of a limit by the knee where work varies: the smallest that fills the CPU.
_LIMIT_BY_KNEE: Final = 1.65


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


def _cliff(profile: Profile, standing: Standing) -> list[str]:
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
