"""What a request says: `?region=hills&id=r17&w=1.37`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["Asked", "BadRequest", "read"]

#: More is a mistake.
MOST_W: Final = 100.0


class BadRequest(ValueError):
    """The request asks for what is not given; answered 400 with the message."""


@dataclass(frozen=True)
class Asked:
    """One request."""

    region: str
    #: Names everything drawn for it: upstreams' latencies, the reply.
    id: str
    #: Multiplies all CPU of the request.
    w: float


def read(endpoint: str, query: Mapping[str, str]) -> Asked:
    """The request. Without an id it is named after endpoint and w, all that a load generator varies.

    Raises:
        BadRequest: w is no number in reach.
    """
    text = query.get("w", "1")
    try:
        w = float(text)
    except ValueError:
        w = math.nan
    if not 0 < w <= MOST_W:
        raise BadRequest(f"price: w={text!r}, expected a number above 0, at most {MOST_W:g}")
    return Asked(query.get("region", ""), query.get("id") or f"{endpoint}-{text}", w)
