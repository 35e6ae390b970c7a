"""How many slots (threads, green threads, connections) work needs that mostly waits: Little's law and what it leaves.

Little's law says how many are busy on average. With exactly that many the queue for one grows, so a
worker needs some more; how many follows from how long an order may wait for one. And of several upstreams one may hang:
a bulkhead keeps it from taking them all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from greenlane.errors import PlanError

#: An order may wait for a slot, in the mean, this share of the time that it holds one. Arbitrary: little beside what
#: orders differ by themselves, and some tens of slots are then within a tenth of Little's law.
WAIT_FRAC: Final = 0.1
#: Share of a process's CPU that may be used.
_BUSY_MOST: Final = 0.7
_MOST: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Slots:
    """What a rate of orders needs.

    Args:
        busy: on average: Little's law.
        needed: enough that an order waits for one a tenth of its stay at most, in the mean.
        processes: enough for the CPU to keep up: each computes one thing at a time.
    """

    busy: float
    needed: int
    processes: int


def slots(rate_per_s: float, stay_ms: float, cpu_ms: float = 0.0) -> Slots:
    """Slots for orders that come at random.

    Args:
        rate_per_s: of orders.
        stay_ms: that one holds its slot, mean.
        cpu_ms: of it that it computes.
    """
    busy = rate_per_s * stay_ms / 1000
    if not 0 <= busy <= _MOST:
        raise PlanError("count slots", name="rate_per_s", value=rate_per_s, rule=f"at most {_MOST} slots busy at once")
    processes = max(1, math.ceil(rate_per_s * cpu_ms / 1000 / _BUSY_MOST - 1e-9))
    return Slots(busy, _needed(rate_per_s, stay_ms) if busy else 1, processes)


def bulkhead(number: int, rates_per_s: Mapping[str, float], stay_ms: float, hang: str) -> int:
    """A limit for each upstream that leaves the others their slots when one hangs, whose orders take every free one.

    Args:
        number: slots in all.
        rates_per_s: of orders, by upstream; two at least.
        stay_ms: that an order holds its slot when nothing hangs.
        hang: the upstream that does not answer.
    """
    others_per_s = math.fsum(rates_per_s.values()) - rates_per_s[hang]
    left = number - _needed(others_per_s, stay_ms)
    return max(1, min(left, number // 2))


def waits_frac(offered: float, servers: int) -> float:
    """Erlang's C: the share of requests that wait for one of `servers` where `offered` are busy on average."""
    if offered >= servers:
        return 1.0
    blocked = 1.0
    for server in range(1, servers + 1):
        blocked = offered * blocked / (server + offered * blocked)
    return blocked / (1 - offered / servers * (1 - blocked))


def _needed(rate_per_s: float, stay_ms: float) -> int:
    """The least number with which orders wait `WAIT_FRAC` of their stay in the mean. Erlang: the wait is the same for
    stays of any law within some per cent, once there are tens of slots."""
    busy = rate_per_s * stay_ms / 1000
    below, step = math.floor(busy), 1
    while not _enough(busy, below + step):
        step *= 2
    enough = below + step
    while enough - below > 1:
        middle = (below + enough) // 2
        below, enough = (below, middle) if _enough(busy, middle) else (middle, enough)
    return enough


def _enough(busy: float, number: int) -> bool:
    return number > busy and waits_frac(busy, number) / (number - busy) <= WAIT_FRAC
