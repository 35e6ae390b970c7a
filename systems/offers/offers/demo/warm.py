"""What every contender has before it is looked at: connections, filled caches, each endpoint asked a few times.

A service that has run for a day has met every endpoint; one that was started a moment ago has not, and Greenlane lets
what it does not know run free until it has seen it three times. So each endpoint that a region asks for is asked three
times, for its usual work, for all contenders alike: who learned from a part of it would expect the first burst to be
over sooner than it is, and those who wait for its turn would give up.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from greenlane.lab.load.generate import generate
from greenlane.lab.load.plan import Constant, Plan, Recorded, Stream, Work
from offers.children import cpu_ns
from offers.load import OFFERS
from offers.site import Pricing
from offers.table import Endpoint, Region, Table

__all__ = ["asked_before", "offer_cpu_ms"]

_ROUNDS: Final = 3
#: Of one core while endpoints are asked one by one.
_BUSY_FRAC: Final = 0.8
#: Offers by themselves: so many a second.
_OFFERS_PER_S: Final = 30.0


def offer_cpu_ms(table: Table, pricing: Pricing, seconds: float) -> float:
    """CPU of one offer in ms, its server's own included, when it has nothing else. Blocks for half as long again."""
    address = f"127.0.0.1:{pricing.ports[-1]}"
    rate = Constant(_OFFERS_PER_S / len(OFFERS))
    streams = tuple(
        Stream(name, address, rate, table.endpoints[name].path, connections="keep-alive") for name in OFFERS
    )
    generate(Plan("warm", seconds / 2, streams))
    before_ns = cpu_ns(pricing.pids())
    found = generate(Plan("alone", seconds, streams)).samples
    return (cpu_ns(pricing.pids()) - before_ns) / max(1, len(found)) / 1e6


def asked_before(table: Table, region: Region, pricing: Pricing, *, rare: bool = True, w: float = 1.0) -> None:
    """Asks three times for whatever the region asks for. Blocks for some seconds.

    Args:
        rare: what it asks for once in minutes as well.
        w: share of its usual work.
    """
    burst = {one.endpoint for one in region.bursts}
    kinds = ("mixed", "heavy") if rare else ("mixed",)
    wanted = {name for name in table.rates_per_s(region) if table.endpoints[name].kind in kinds} | burst
    endpoints = [one for one in table.endpoints.values() if one.name in wanted]
    streams = tuple(
        _stream(one, region, pricing.address, at_s, w)
        for one, at_s in zip(endpoints, _in_turn(endpoints, w), strict=True)
    )
    generate(Plan("asked-before", _ROUNDS * sum(_took_s(one, w) for one in endpoints), streams))


def _stream(endpoint: Endpoint, region: Region, address: str, at_s: list[float], w: float) -> Stream:
    arrivals = Recorded(tuple(round(1e9 * one) for one in at_s))
    path = f"{endpoint.path}?region={region.name}"
    return Stream(endpoint.name, address, arrivals, path, connections="keep-alive", work=Work(w, parameter="w"))


def _in_turn(endpoints: Sequence[Endpoint], w: float) -> list[list[float]]:
    """When each is asked: one after the other, as far apart as they compute."""
    starts_s = [0.0, *itertools.accumulate(_took_s(one, w) for one in endpoints)]
    return [[start_s + at * starts_s[-1] for at in range(_ROUNDS)] for start_s in starts_s[:-1]]


def _took_s(endpoint: Endpoint, w: float) -> float:
    return w * endpoint.cpu_ms / 1e3 / _BUSY_FRAC
