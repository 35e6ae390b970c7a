"""What every contender has before it is looked at: connections, filled caches, its computing endpoints asked.

A service that has run for a day has met every endpoint; one that was started a moment ago has not, and Greenlane lets
what it does not know run free until it has seen it three times. So each mixed and heavy endpoint that a region asks for
is asked three times before runs of 10 s or more, for its usual work, for all contenders alike: who learned from a part
of it would expect the first burst to be over sooner than it is, and those who wait for its turn would give up.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Constant, Plan, Recorded, Stream, Work
from greenlane_tools.lab.processes import cpu_ns
from offers.load import OFFERS
from offers.site import Pricing
from offers.table import Endpoint, Region, Table

#: Shorter runs show that everything works, and no figures: their servers have met nothing.
FROM_S: Final = 10.0
_ROUNDS: Final = 3
#: Of one core while endpoints are asked one by one.
_BUSY_FRAC: Final = 0.8
#: Offers by themselves: this many a second.
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


def asked_before(table: Table, region: Region, pricing: Pricing, *, rare: bool = True) -> None:
    """Asks three times for what computes of all that the region asks for. Blocks for some 10 s, 2 s without `rare`.

    Args:
        rare: what it asks for once in minutes as well: heavy endpoints beside those of its bursts.
    """
    generate(asking(table, region, pricing.address, rare=rare))


def asking(table: Table, region: Region, address: str, *, rare: bool = True) -> Plan:
    """What `asked_before` sends to `address`, host:port."""
    burst = {one.endpoint for one in region.bursts}
    kinds = ("mixed", "heavy") if rare else ("mixed",)
    wanted = {name for name in table.rates_per_s(region) if table.endpoints[name].kind in kinds} | burst
    endpoints = [one for one in table.endpoints.values() if one.name in wanted]
    streams = tuple(
        _stream(one, region, address, at_s) for one, at_s in zip(endpoints, _in_turn(endpoints), strict=True)
    )
    return Plan("asked-before", _ROUNDS * sum(map(_took_s, endpoints)), streams)


def _stream(endpoint: Endpoint, region: Region, address: str, at_s: list[float]) -> Stream:
    arrivals = Recorded(tuple(round(1e9 * one) for one in at_s))
    path = f"{endpoint.path}?region={region.name}"
    return Stream(endpoint.name, address, arrivals, path, connections="keep-alive", work=Work(1.0, parameter="w"))


def _in_turn(endpoints: Sequence[Endpoint]) -> list[list[float]]:
    """When each is asked: one after the other, as far apart as they compute."""
    starts_s = [0.0, *itertools.accumulate(map(_took_s, endpoints))]
    return [[start_s + at * starts_s[-1] for at in range(_ROUNDS)] for start_s in starts_s[:-1]]


def _took_s(endpoint: Endpoint) -> float:
    return endpoint.cpu_ms / 1e3 / _BUSY_FRAC
