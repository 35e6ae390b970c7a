"""The profile of a service: what its requests do, how they come, on what they run. All that a plan needs.

Made from a recording (`recorded`) or written by hand (`model_file`); kept as JSON, which
`docs/profile-format.md` describes. Immutable: what-ifs are `dataclasses.replace`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from greenlane.errors import PlanError
from greenlane.settings.refusal import nearest
from greenlane_tools.plan.fields import Fields
from greenlane_tools.plan.route import Kind, Route, rounded, route_json, route_of, simulated_route

# --- Latencies that were measured, from arrival: counts in buckets of 2 %, which add up where percentiles do not.


#: Each bucket reaches this much further than the one before it: a percentile is good to 1 %.
GROWTH: Final = 1.02
_LEAST_MS: Final = 1e-3
#: Percentiles by name.
LEVELS: Final[Mapping[str, float]] = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}
#: A percentile is given only with this many requests beyond it.
_BEYOND: Final = 10


def carried(share: float, samples: int) -> bool:
    """Whether this many requests suffice for the percentile: p99 from 1,000, p99.9 from 10,000."""
    return samples * (1 - share) >= _BEYOND - 1e-6


@dataclass(frozen=True)
class Measured:
    """One route."""

    #: Requests by bucket; bucket i is from 1.02**i to 1.02**(i+1) ms.
    counts: Mapping[int, int]
    #: Sum of the latencies, ms.
    sum_ms: float

    @classmethod
    def of(cls, latencies_ms: Iterable[float]) -> Measured:
        """Counts them."""
        counts: dict[int, int] = {}
        total = 0.0
        for ms in latencies_ms:
            bucket = bucket_of(ms)
            counts[bucket] = counts.get(bucket, 0) + 1
            total += ms
        return cls(dict(sorted(counts.items())), round(total, 3))

    @property
    def samples(self) -> int:
        """Requests."""
        return sum(self.counts.values())

    def quantile_ms(self, share: float) -> float | None:
        """The latency that this share of the requests does not exceed, nearest rank; None without requests."""
        return self.ranked_ms(max(1, math.ceil(share * self.samples - 1e-9))) if self.samples else None

    def ranked_ms(self, rank: int) -> float:
        """The latency of the request of this rank, the fastest is 1."""
        seen = 0
        for bucket, count in sorted(self.counts.items()):
            seen += count
            if seen >= rank:
                return float(GROWTH ** (bucket + 0.5))
        return math.inf

    def within_frac(self, limit_ms: float) -> float | None:
        """The share that took at most this long; the bucket that holds the limit counts by its part below it."""
        if not self.samples or limit_ms <= 0:
            return None
        edge = math.log(limit_ms) / math.log(GROWTH)
        inside = sum(count * min(1.0, max(0.0, edge - bucket)) for bucket, count in self.counts.items())
        return inside / self.samples

    def to_json(self) -> dict[str, object]:
        """For the file. Percentiles stand there for readers: they are not read back."""
        levels = {name: self.quantile_ms(share) for name, share in LEVELS.items() if carried(share, self.samples)}
        return {
            "samples": self.samples,
            **{name: round(ms, 4) for name, ms in levels.items() if ms is not None},
            "sum_ms": self.sum_ms,
            "buckets": [[bucket, count] for bucket, count in sorted(self.counts.items())],
        }


def bucket_of(ms: float) -> int:
    """Which bucket holds it."""
    return math.floor(math.log(max(ms, _LEAST_MS)) / math.log(GROWTH))


SCHEMA: Final = "greenlane.profile/1"
#: What runs the requests: "permits" = threads with CPU permits.
HOSTS: Final = ("gevent", "threads", "permits", "asyncio", "celery")
#: Where a profile comes from.
SOURCES: Final = ("recording", "model")
#: Hosts whose requests take turns on one loop.
LOOPS: Final = ("gevent", "asyncio")
#: Standard errors that tell uneven arrivals from chance.
_ERRORS: Final = 2.0
#: Sums may differ by this much before they contradict each other: rounding, and requests at the edges.
_SUM_FRAC: Final = 0.02
#: Requests by seconds may differ this much from the given rate.
_RATE_FRAC: Final = 0.3


@dataclass(frozen=True, slots=True)
class Arrivals:
    """How requests come."""

    rate_per_s: float
    #: Variance of the counts in 1 s by their mean; 1 = Poisson, more = bursts. None = not known.
    dispersion: float | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """A service."""

    host: str
    arrivals: Arrivals
    #: By rate, most first.
    routes: tuple[Route, ...]
    name: str = ""
    source: str = "model"
    #: That it was watched for; 0 = it was not.
    seconds: float = 0.0
    #: That serve requests, and cores that they may use together.
    processes: int = 1
    cores: int = 1
    #: Latencies by route, where they were measured.
    measured: Mapping[str, Measured] = field(default_factory=dict)
    #: Requests that one process has in progress at most: threads, connections. None = not known.
    slots: int | None = None
    #: Of the interpreter. None = not known.
    switch_interval_ms: float | None = None
    #: CPU of a process that belongs to no request, by request: accepting, parsing, collecting.
    overhead_ms: float = 0.0
    #: How fast the cores were: what a loop of fixed work took, and the deviation of its logarithm between stretches
    #: of 10 s. None = not known.
    loop_us: float | None = None
    loop_spread: float | None = None
    #: What a reader must know, each a sentence.
    notes: tuple[str, ...] = ()

    @property
    def requests(self) -> int:
        """That it saw."""
        return sum(route.requests for route in self.routes)

    def called(self, name: str) -> tuple[Route, ...]:
        """The route of this name, or those that have this word in theirs."""
        whole = tuple(route for route in self.routes if route.route == name)
        return whole or tuple(route for route in self.routes if name and name.lower() in _words(route.route))

    def nearest(self, name: str) -> str:
        """A hint with the name or the word that was probably meant; "" = none."""
        words = (word for route in self.routes for word in _words(route.route) if word)
        return nearest(name, [*(route.route for route in self.routes), *words]) if name else ""

    def route(self, name: str) -> Route:
        """One of its routes.

        Raises: PlanError, with the name that was probably meant.
        """
        for each in self.routes:
            if each.route == name:
                return each
        names = [each.route for each in self.routes]
        hint = nearest(name, names) or f"it has {', '.join(names[:5])}"
        raise PlanError("look up a route", name="route", value=name, rule="a route of the profile", hint=hint)

    def simulated(self, host: str | None = None, *, threaded: Collection[str] = ()) -> Profile:
        """What a simulator takes: cpu, io and free only, sequences whose means are the exact ones, overhead in them.

        Args:
            host: that it is to run on; None = the same. `held` is CPU to the others of a loop, I/O beside threads; what
                threads computed without the GIL keeps a loop as well. Of a loop's own profile `free` is what was moved
                away from it; what the loop itself was seen to compute without the GIL is `free` elsewhere only.

            threaded: routes that compute on a thread beside the loop.

        How unevenly requests came counts only as far as so short a time can tell it from chance.
        """
        host = host or self.host
        held: Kind = "cpu" if host in LOOPS else "io"
        free: Kind = "cpu" if host in LOOPS and self.host not in LOOPS else "free"
        return replace(
            self,
            routes=tuple(
                simulated_route(
                    route, held, self.overhead_ms, free, unlocked=self.unlocks(host) or route.route in threaded
                )
                for route in self.routes
            ),
            arrivals=replace(self.arrivals, dispersion=told_dispersion(self.arrivals.dispersion, self.seconds)),
        )

    def slowed(self, times: float) -> Profile:
        """The same on cores that are this many times slower."""
        loop_us = self.loop_us * times if self.loop_us is not None else None
        routes = tuple(route.slowed(times) for route in self.routes)
        return replace(self, routes=routes, overhead_ms=self.overhead_ms * times, loop_us=loop_us)

    def unlocks(self, host: str) -> bool:
        """Whether what its loop was seen to compute without the GIL would run beside others on that host."""
        return self.host in LOOPS and host not in LOOPS

    @classmethod
    def from_json(cls, text: str | bytes) -> Profile:
        """Reads what `to_json` wrote, or anybody else.

        Raises: PlanError for what is damaged, missing or contradictory: it names the field.
        """
        try:
            table = json.loads(text)
        except (ValueError, RecursionError) as error:
            where = f" (line {error.lineno}, column {error.colno})" if isinstance(error, json.JSONDecodeError) else ""
            shown = text[:40] if isinstance(text, str) else bytes(text[:40])
            rule = f"whole JSON{where}"
            hint = "it was cut or changed after it was written: make it again"
            raise PlanError("read the profile", name="profile", value=shown, rule=rule, hint=hint) from None
        return profile_of(Fields(table))

    def to_json(self) -> bytes:
        """Compact JSON; the same profile always gives the same bytes."""
        table = {
            "schema": SCHEMA,
            "name": self.name,
            "source": self.source,
            "seconds": round(self.seconds, 3),
            "host": self.host,
            "processes": self.processes,
            "cores": self.cores,
            "slots": self.slots,
            "switch_interval_ms": self.switch_interval_ms,
            "overhead_ms": rounded(self.overhead_ms),
            "loop_us": self.loop_us,
            "loop_spread": self.loop_spread,
            "requests": self.requests,
            "arrivals": {"rate_per_s": self.arrivals.rate_per_s, "dispersion": self.arrivals.dispersion},
            "routes": [route_json(route) for route in self.routes],
            "measured": {name: each.to_json() for name, each in sorted(self.measured.items())},
            "notes": list(self.notes),
        }
        return json.dumps(table, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")


def told_dispersion(dispersion: float | None, seconds: float) -> float | None:
    """1, random arrivals, unless there are seconds enough to tell them apart: its error is sqrt(3 / (seconds - 1))."""
    if dispersion is None or seconds <= 1:
        return dispersion
    return 1.0 if abs(dispersion - 1) <= _ERRORS * math.sqrt(3 / (seconds - 1)) else dispersion


def profile_of(fields: Fields) -> Profile:
    """A profile from the fields of a file.

    Raises: PlanError for what is missing, out of range or contradictory.
    """
    schema = fields.text("schema", SCHEMA)
    if schema != SCHEMA:
        newer = schema.startswith(SCHEMA[:-1])
        hint = "read it with a later release of greenlane" if newer else "give the file that `greenlane plan` wrote"
        raise fields.error("schema", schema, SCHEMA, hint)
    routes = tuple(route_of(each) for each in fields.tables("routes"))
    found = Profile(
        name=fields.text("name", ""),
        source=fields.text("source", "model", among=SOURCES),
        seconds=fields.number("seconds", 0.0),
        host=fields.text("host", among=HOSTS),
        processes=fields.whole("processes", 1, least=1, most=100_000),
        cores=fields.whole("cores", 1, least=1, most=100_000),
        slots=fields.whole("slots", 0, least=1) or None,
        switch_interval_ms=fields.perhaps("switch_interval_ms", open_=True),
        overhead_ms=fields.number("overhead_ms", 0.0),
        loop_us=fields.perhaps("loop_us", open_=True),
        loop_spread=fields.perhaps("loop_spread"),
        arrivals=_arrivals(fields.table("arrivals"), routes),
        routes=tuple(sorted(routes, key=lambda each: (-each.rate_per_s, each.route))),
        measured={name: _measured(each) for name, each in fields.named("measured")},
        notes=fields.texts("notes"),
    )
    requests = fields.whole("requests", found.requests)
    fields.end()
    _check(found, fields, requests)
    return found


def _arrivals(fields: Fields, routes: tuple[Route, ...]) -> Arrivals:
    rates = math.fsum(route.rate_per_s for route in routes)
    found = Arrivals(rate_per_s=fields.number("rate_per_s", rates), dispersion=fields.perhaps("dispersion"))
    fields.end()
    if abs(found.rate_per_s - rates) > _SUM_FRAC * max(found.rate_per_s, rates):
        rule = f"the sum of the routes' rates, {rates:.6g}"
        raise fields.error("rate_per_s", found.rate_per_s, rule, "leave it out, or correct the routes' rate_per_s")
    return found


def _measured(fields: Fields) -> Measured:
    for name in ("samples", "p50_ms", "p95_ms", "p99_ms", "p999_ms"):
        fields.perhaps(name)  # for readers: the buckets say it
    counts: dict[int, int] = {}
    for pair in fields.items("buckets"):
        numbers = isinstance(pair, list) and len(pair) == 2 and all(type(each) is int for each in pair)
        if not isinstance(pair, list) or not numbers or pair[1] < 1:
            raise fields.error("buckets", pair, "pairs of a bucket and its count, whole numbers")
        counts[pair[0]] = counts.get(pair[0], 0) + pair[1]
    found = Measured(counts=dict(sorted(counts.items())), sum_ms=fields.number("sum_ms", 0.0))
    fields.end()
    return found


def _check(profile: Profile, fields: Fields, requests: int) -> None:
    """What no field shows alone."""
    if not profile.routes:
        raise fields.error("routes", None, "at least one route", "was there any request while it was recorded?")
    names = [route.route for route in profile.routes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise fields.error("routes", twice, "each route once", "give one of them another name")
    strange = next((name for name in profile.measured if name not in names), None)
    if strange is not None:
        raise fields.error("measured", strange, "a route of the profile")
    if requests != profile.requests:
        raise fields.error("requests", requests, f"the sum of the routes' requests, {profile.requests}")
    for route in profile.routes:
        seen = route.requests / profile.seconds if profile.seconds else 0.0
        if route.requests >= 100 and seen and abs(seen - route.rate_per_s) > _RATE_FRAC * seen:
            rule = f"its requests by the profile's seconds, {seen:.4g}"
            raise fields.error(f"{route.route}.rate_per_s", route.rate_per_s, rule, "correct one of the three")


def _words(name: str) -> list[str]:
    return re.split(r"[^\w-]+", name.lower())
