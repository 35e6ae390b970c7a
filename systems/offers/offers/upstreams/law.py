"""How long an upstream takes for an id, and what it replies: both follow from the id alone."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any, Final

from offers.drawn import drawn, uniform
from offers.table import Upstream

__all__ = ["latency_ms", "reply"]

_NORMAL: Final = NormalDist()
_Z99: Final = _NORMAL.inv_cdf(0.99)


def latency_ms(upstream: Upstream, call_id: str) -> float:
    """Lognormal by median and 99th percentile, `at_most_ms` at most; from the request read to the reply written."""
    spread = math.log(upstream.p99_ms / upstream.median_ms) / _Z99
    drawn_ms = upstream.median_ms * math.exp(spread * _NORMAL.inv_cdf(uniform(upstream.name, call_id)))
    return min(upstream.at_most_ms, drawn_ms)


def reply(name: str, call_id: str) -> dict[str, Any]:
    """What is said: plausible, and the same for the same id."""
    number = drawn(f"reply-{name}", call_id)
    match name:
        case "eta":
            return {"eta_s": 60 + number % 840}
        case "routing":
            return {"metres": 300 + number % 9000, "route": [_place(number, at) for at in range(8)]}
        case "zones":
            return {"zone": number % 64}
        case _:
            return {"factor_percent": 80 + number % 61}


def _place(number: int, at: int) -> list[int]:
    """A point of the way: micro-degrees."""
    north, east = number >> 8 * at & 255, number >> 8 * (7 - at) & 255
    return [45_700_000 + north * 200, 4_800_000 + east * 200]
