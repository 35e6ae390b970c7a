"""What a region's callers ask pricing for, as a plan and its schedule for `greenlane_tools.lab.load.generate`.

Everything is drawn from the seed: arrivals, bursts, every request's w. The same seed is the same load, whichever
service is asked. Requests carry one number each: w, or, where a rider's offer is asked for straight at pricing, an id.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from greenlane_tools.lab.load.plan import Plan, Recorded, Stream, Work
from greenlane_tools.lab.load.schedule import Schedule
from offers.table import Burst, Endpoint, Region, Table, drawn

#: What a rider's poll asks pricing for.
OFFERS: Final = ("bikes_price", "scooters_price")
# Draws of which the one nearest to the expected CPU is taken, and what is near enough: a short run is what its region
# says, not what chance made of it.
_DRAWS: Final = 200
_TOLERANCE_FRAC: Final = 0.02
_MOST_W: Final = 100.0
_NORMAL: Final = NormalDist()

Column = NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """`generate(load.plan, arrivals=load.schedule)`."""

    plan: Plan
    schedule: Schedule

    def __len__(self) -> int:
        return len(self.schedule)


@dataclass(frozen=True)
class _Asked:
    """Requests for one endpoint."""

    endpoint: Endpoint
    #: When, s from the start, any order.
    at_s: Column
    #: Each one's number.
    number: Column
    parameter: str = "w"

    def cpu_ms(self) -> float:
        return self.endpoint.cpu_ms * float(self.number.sum() if self.parameter == "w" else len(self.number))


def direct(table: Table, region: Region, address: str, seconds: float, seed: str, *, scale: float = 1.0) -> Load:
    """All callers of pricing but offerservice.

    Args:
        address: of pricing, "host:port".
        seconds: arrivals end then.
        scale: factor on all rates, those of bursts as well; sizes and w stay.
    """
    return _load(region, address, seconds, seed, _direct_callers(table, region, seconds, seed, scale))


def with_riders(table: Table, region: Region, address: str, seconds: float, seed: str, *, scale: float = 1.0) -> Load:
    """The same, and the riders' bikes and scooters straight at pricing: both of a poll at one instant."""
    asked = _direct_callers(table, region, seconds, seed, scale)
    source = _source(seed, region.name, "riders")
    at_s = _poisson(region.riders_per_s * scale, seconds, source)
    polls = np.arange(1, len(at_s) + 1, dtype=np.float64)
    for place, name in enumerate(OFFERS):
        asked.append(_Asked(table.endpoints[name], at_s, polls + place / 2, "id"))
    return _load(region, address, seconds, seed, asked)


def offers_of(load: Load) -> NDArray[np.bool_]:
    """Which of its requests are riders' bikes and scooters."""
    return np.isin(load.schedule.stream, [at for at, one in enumerate(load.plan.streams) if one.name in OFFERS])


def expected_cpu_ms_per_s(table: Table, region: Region, scale: float = 1.0) -> float:
    """Counted CPU that a region's direct callers ask for in a second, in the mean."""
    steady = sum(table.endpoints[name].cpu_ms * per_s for name, per_s in table.rates_per_s(region).items())
    bursts = sum(table.endpoints[one.endpoint].cpu_ms * one.size_mean / one.every_s for one in region.bursts)
    return scale * (steady + bursts)


def _direct_callers(table: Table, region: Region, seconds: float, seed: str, scale: float) -> list[_Asked]:
    expected_ms = expected_cpu_ms_per_s(table, region, scale) * seconds
    best: list[_Asked] = []
    best_miss = math.inf
    for draw in range(_DRAWS):
        asked = list(_callers(table, region, seconds, f"{seed}/{draw}", scale))
        miss = abs(sum(one.cpu_ms() for one in asked) / expected_ms - 1) if expected_ms else 0.0
        if miss < best_miss:
            best, best_miss = asked, miss
        if best_miss <= _TOLERANCE_FRAC:
            break
    return best


def _callers(table: Table, region: Region, seconds: float, seed: str, scale: float) -> Iterable[_Asked]:
    for name, per_s in table.rates_per_s(region).items():
        endpoint = table.endpoints[name]
        source = _source(seed, region.name, name)
        at_s = _poisson(per_s * scale, seconds, source)
        yield _Asked(endpoint, at_s, _lognormal(1.0, region.kinds[endpoint.kind].w_cv, len(at_s), source))
    for number, burst in enumerate(region.bursts):
        yield _burst(table, burst, seconds, scale, _source(seed, region.name, f"burst {number}"))


def _burst(table: Table, burst: Burst, seconds: float, scale: float, source: np.random.Generator) -> _Asked:
    """One in each of its periods, at any instant of it: a short run has its share, and none can be foreseen."""
    every_s = burst.every_s / scale
    count = math.ceil(seconds / every_s)
    starts_s = (np.arange(count) + source.random(count)) * every_s
    at_s = np.repeat(starts_s, _sizes(burst, count, source))
    w = _lognormal(1.0, burst.w_cv, len(at_s), source)
    return _Asked(table.endpoints[burst.endpoint], at_s[at_s < seconds], w[at_s < seconds])


def _sizes(burst: Burst, count: int, source: np.random.Generator) -> NDArray[np.int64]:
    """As many small and great ones as the law has on average, in any order."""
    sigma = math.sqrt(math.log(1 + burst.size_cv**2))
    shares = source.permutation((np.arange(count) + source.random(count)) / count)
    normal = np.array([_NORMAL.inv_cdf(min(max(share, 1e-9), 1 - 1e-9)) for share in shares])
    sizes = burst.size_mean * np.exp(sigma * normal - sigma**2 / 2)
    return np.clip(np.rint(sizes), 1, burst.size_most).astype(np.int64)


def _load(region: Region, address: str, seconds: float, seed: str, asked: Iterable[_Asked]) -> Load:
    asked = _one_each(asked)
    at_ns = np.concatenate([(one.at_s * 1e9).astype(np.int64) for one in asked])
    numbers = np.repeat(np.arange(len(asked)), [len(one.at_s) for one in asked])
    work = np.concatenate([one.number for one in asked])
    order = np.argsort(at_ns, kind="stable")
    schedule = Schedule(at_ns[order], numbers[order].astype(np.uint16), work[order])
    return Load(Plan(seed, seconds, tuple(_stream(region, address, one) for one in asked)), schedule)


def _one_each(asked: Iterable[_Asked]) -> list[_Asked]:
    """Those of one endpoint together, whether they come one by one or in bursts: samples are told apart by its name."""
    found: dict[str, _Asked] = {}
    for one in asked:
        name = one.endpoint.name
        if (first := found.get(name)) is not None:
            at_s, number = np.concatenate([first.at_s, one.at_s]), np.concatenate([first.number, one.number])
            one = _Asked(one.endpoint, at_s, number, one.parameter)
        found[name] = one
    return list(found.values())


def _stream(region: Region, address: str, asked: _Asked) -> Stream:
    path = f"{asked.endpoint.path}?region={region.name}"
    work = Work(1.0, parameter=asked.parameter)
    # Arrivals are the schedule's.
    return Stream(asked.endpoint.name, address, Recorded(()), path, connections="keep-alive", work=work)


def _source(*names: str) -> np.random.Generator:
    return np.random.default_rng(drawn("load", "/".join(names)))


def _poisson(per_s: float, seconds: float, source: np.random.Generator) -> Column:
    """Independent callers: their number is Poisson, their instants uniform."""
    return np.sort(source.random(source.poisson(per_s * seconds)) * seconds)


def _lognormal(mean: float, cv: float, size: int, source: np.random.Generator) -> Column:
    sigma = math.sqrt(math.log(1 + cv**2))
    drawn_values = source.lognormal(math.log(mean) - sigma**2 / 2, sigma, size)
    return np.clip(np.round(drawn_values, 4), 1e-3, _MOST_W)
