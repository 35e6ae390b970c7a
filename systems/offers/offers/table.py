"""The one description that Python and Go both read: endpoints, upstreams, regions. Read whole and checked at once.

table = read()                      the folder `table` beside this package, or OFFERS_TABLE
table.endpoints["bikes_price"].steps
"""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

# --- Numbers that follow from names alone: every caller that asks with the same id gets the same, in Python and in
# Go.


_MASK: Final = (1 << 64) - 1
_OFFSET: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3


def drawn(what: str, name: str) -> int:
    """A whole number below 2^64. Cost: some 5 µs."""
    state = _OFFSET
    for byte in f"{what}|{name}".encode():
        state = (state ^ byte) * _PRIME & _MASK
    state = (state ^ state >> 33) * 0xFF51AFD7ED558CCD & _MASK
    state = (state ^ state >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return state ^ state >> 33


def uniform(what: str, name: str) -> float:
    """A number between 0 and 1, both excluded."""
    return ((drawn(what, name) >> 11) + 0.5) / 2**53


FOLDER: Final = Path(__file__).resolve().parent.parent / "table"
KINDS: Final = ("offer", "light", "mixed", "heavy")
WORKS: Final = ("burn", "geometry", "json", "regex", "sort", "template")
LANGUAGES: Final = ("python", "go")
#: What an offer may compute: in all, and between two calls.
OFFER_CPU_MS: Final = 3.0
OFFER_PHASE_MS: Final = 2.0
OFFER_CALLS: Final = 3

T = TypeVar("T")
Row = Mapping[str, Any]


class TableError(ValueError):
    """The table contradicts itself; the message names file, row and rule.

    No GreenlaneError: pricingservice reads the table, and knows nothing of Greenlane. Commands catch both.
    """

    code: ClassVar[str] = "offers-table"
    #: What a command ends with.
    exit_code: ClassVar[int] = 2

    def __init__(self, told: str) -> None:
        super().__init__(f"read the table: {told}\nhint: correct the table")


@dataclass(frozen=True)
class Compute:
    """CPU: `cpu_ms` calibrated milliseconds of one kind of work, at w = 1."""

    work: str
    cpu_ms: float


@dataclass(frozen=True)
class Call:
    """One request to an upstream, waited for."""

    upstream: str


Step = Compute | Call


@dataclass(frozen=True)
class Endpoint:
    """One endpoint of pricingservice."""

    name: str
    path: str
    kind: str
    weight: float
    #: In order; a call of several times stands so often.
    steps: tuple[Step, ...]

    @property
    def cpu_ms(self) -> float:
        """All its CPU at w = 1."""
        return sum(step.cpu_ms for step in self.steps if isinstance(step, Compute))

    @property
    def calls(self) -> tuple[str, ...]:
        """Upstreams in the order asked."""
        return tuple(step.upstream for step in self.steps if isinstance(step, Call))

    def phases_ms(self) -> list[float]:
        """CPU at w = 1 before, between and after its calls."""
        phases = [0.0]
        for step in self.steps:
            if isinstance(step, Call):
                phases.append(0.0)
            else:
                phases[-1] += step.cpu_ms
        return phases


@dataclass(frozen=True)
class Upstream:
    """One upstream service. Its latency is lognormal and bounded; its own CPU lies inside it."""

    name: str
    language: str
    median_ms: float
    p99_ms: float
    at_most_ms: float
    cpu_ms: float


@dataclass(frozen=True)
class Kind:
    """Requests of one kind that come straight to pricing."""

    per_s: float = 0.0
    #: Standard deviation of w, whose mean is 1.
    w_cv: float = 0.0
    #: (endpoint, factor on its weight).
    more: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True)
class Burst:
    """A caller that asks one endpoint several times at one instant."""

    endpoint: str
    #: Length of the periods; each has one burst.
    every_s: float
    #: Sizes are lognormal, rounded, at least 1 and at most `size_most`.
    size_mean: float
    size_cv: float
    size_most: int
    w_cv: float


@dataclass(frozen=True)
class Region:
    """What one region's pricingservice is asked for."""

    name: str
    #: Polls of offerservice; each asks pricing for bikes and for scooters.
    riders_per_s: float
    #: By kind, all four.
    kinds: Mapping[str, Kind]
    bursts: tuple[Burst, ...]


@dataclass(frozen=True)
class Table:
    """All of it, by name, in the files' order."""

    endpoints: Mapping[str, Endpoint]
    upstreams: Mapping[str, Upstream]
    regions: Mapping[str, Region]

    def rates_per_s(self, region: Region) -> dict[str, float]:
        """Requests a second that come straight to pricing, by endpoint, bursts not counted."""
        rates: dict[str, float] = {}
        for name, kind in region.kinds.items():
            more = dict(kind.more)
            weights = {
                one.name: one.weight * more.get(one.name, 1.0)
                for one in self.endpoints.values()
                if one.kind == name
            }  # fmt: skip
            whole = sum(weights.values())
            rates |= {endpoint: kind.per_s * weight / whole for endpoint, weight in weights.items() if weight}
        return rates


def folder() -> Path:
    """Where the table is: OFFERS_TABLE, or beside this package."""
    return Path(os.environ.get("OFFERS_TABLE") or FOLDER)


def read(place: Path | None = None) -> Table:
    """The table in `place` (None = `folder()`).

    Raises:
        TableError: a row contradicts the rules.
        OSError: a file is missing.
    """
    place = place or folder()
    upstreams = _named(place, "upstream", _upstream)
    endpoints = _named(place, "endpoint", partial(_endpoint, upstreams=upstreams))
    paths = Counter(one.path for one in endpoints.values())
    for one in endpoints.values():
        _require("endpoint", one.name, "path", one.path, "a path of its own", paths[one.path] == 1)
    return Table(endpoints, upstreams, _named(place, "region", partial(_region, endpoints=endpoints)))


def _named(place: Path, what: str, make: Callable[[Row], T]) -> dict[str, T]:
    with (place / f"{what}s.toml").open("rb") as file:
        try:
            rows = tomllib.load(file).get(what, [])
        except tomllib.TOMLDecodeError as error:
            raise TableError(f"{what}s.toml: {error}, expected TOML") from None
    found: dict[str, T] = {}
    for row in rows:
        name = row.get("name")
        fits = isinstance(name, str) and name.isidentifier() and name not in found
        _require(what, str(name), "name", name, "a word of its own", fits)
        try:
            found[name] = make(row)
        except (TypeError, AttributeError, KeyError) as error:
            raise TableError(f"{what} {name}: {error}, expected the keys of offers.table") from None
    return found


def _require(what: str, name: str, key: str, value: object, rule: str, holds: bool) -> None:
    if not holds:
        raise TableError(f"{what} {name}: {key}={value!r}, expected {rule}")


def _known(what: str, row: Row, names: Iterable[str]) -> None:
    for key in sorted(set(row) - set(names)):
        _require(what, str(row.get("name")), key, row[key], f"only {', '.join(names)}", False)


def _upstream(row: Row) -> Upstream:
    one = Upstream(**row)
    say = partial(_require, "upstream", one.name)
    say("language", one.language, f"one of {', '.join(LANGUAGES)}", one.language in LANGUAGES)
    say("median_ms", one.median_ms, "0 < median_ms <= p99_ms", 0 < one.median_ms <= one.p99_ms)
    say("at_most_ms", one.at_most_ms, "at_most_ms >= p99_ms", one.at_most_ms >= one.p99_ms)
    say("cpu_ms", one.cpu_ms, "0 <= cpu_ms < median_ms", 0 <= one.cpu_ms < one.median_ms)
    return one


def _endpoint(row: Row, upstreams: Mapping[str, Upstream]) -> Endpoint:
    _known("endpoint", row, ("name", "path", "kind", "weight", "steps"))
    steps = tuple(step for each in row["steps"] for step in _steps(row["name"], each, upstreams))
    one = Endpoint(row["name"], row["path"], row["kind"], float(row.get("weight", 1)), steps)
    say = partial(_require, "endpoint", one.name)
    say("kind", one.kind, f"one of {', '.join(KINDS)}", one.kind in KINDS)
    say("weight", one.weight, "0 or more", one.weight >= 0)
    # Nothing in it that a router would take for a pattern.
    plain = one.path.startswith("/v1/") and one.path.replace("/", "").replace("-", "").isalnum()
    say("path", one.path, "/v1/… of letters, digits and -", plain)
    if one.kind == "offer":
        say("calls", one.calls, f"{OFFER_CALLS} or more", len(one.calls) >= OFFER_CALLS)
        say("cpu_ms", one.cpu_ms, f"{OFFER_CPU_MS} at most", one.cpu_ms <= OFFER_CPU_MS)
        say("a phase's cpu_ms", max(one.phases_ms()), f"below {OFFER_PHASE_MS}", max(one.phases_ms()) < OFFER_PHASE_MS)
    return one


def _steps(name: str, row: Row, upstreams: Mapping[str, Upstream]) -> list[Step]:
    say = partial(_require, "endpoint", name)
    if "call" in row:
        _known("endpoint", row, ("call", "times"))
        times = row.get("times", 1)
        say("call", row["call"], f"one of {', '.join(upstreams)}", row["call"] in upstreams)
        say("times", times, "a whole number from 1", isinstance(times, int) and times >= 1)
        return [Call(row["call"])] * times
    _known("endpoint", row, ("work", "cpu_ms"))
    say("work", row.get("work"), f"one of {', '.join(WORKS)}", row.get("work") in WORKS)
    say("cpu_ms", row.get("cpu_ms"), "above 0", float(row["cpu_ms"]) > 0)
    return [Compute(row["work"], float(row["cpu_ms"]))]


def _region(row: Row, endpoints: Mapping[str, Endpoint]) -> Region:
    _known("region", row, ("name", "riders_per_s", *KINDS, "burst"))
    name = row["name"]
    say = partial(_require, "region", name)
    say("riders_per_s", row["riders_per_s"], "0 or more", row["riders_per_s"] >= 0)
    kinds = {kind: _kind(name, kind, row.get(kind, {}), endpoints) for kind in KINDS}
    bursts = tuple(_burst(name, one, endpoints) for one in row.get("burst", []))
    return Region(name, float(row["riders_per_s"]), kinds, bursts)


def _kind(region: str, kind: str, row: Row, endpoints: Mapping[str, Endpoint]) -> Kind:
    _known("region", row, [field.name for field in fields(Kind)])
    say = partial(_require, "region", region)
    more = tuple(row.get("more", {}).items())
    for endpoint, factor in more:
        fits = endpoint in endpoints and endpoints[endpoint].kind == kind
        say(f"{kind}.more", endpoint, f"an endpoint of kind {kind}", fits)
        say(f"{kind}.more.{endpoint}", factor, "0 or more", factor >= 0)
    one = Kind(float(row.get("per_s", 0)), float(row.get("w_cv", 0)), more)
    say(f"{kind}.per_s", one.per_s, "0 or more", one.per_s >= 0)
    say(f"{kind}.w_cv", one.w_cv, "0 or more", one.w_cv >= 0)
    return one


def _burst(region: str, row: Row, endpoints: Mapping[str, Endpoint]) -> Burst:
    one = Burst(**row)
    say = partial(_require, "region", region)
    say("burst.endpoint", one.endpoint, "an endpoint", one.endpoint in endpoints)
    say("burst.every_s", one.every_s, "above 0", one.every_s > 0)
    say("burst.size_mean", one.size_mean, "1 or more", 1 <= one.size_mean <= one.size_most)
    say("burst.size_cv", one.size_cv, "0 or more", min(one.size_cv, one.w_cv) >= 0)
    return one
