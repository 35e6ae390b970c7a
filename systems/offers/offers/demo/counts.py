"""What offerservice has counted, between two instants: its counters are cumulative, the reader cuts them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

__all__ = ["Counts", "priced"]

_NAMES = ("asked", "made", "late", "refused", "failed", "wasted")


@dataclass(frozen=True)
class Counts:
    """Offers of some modes, and how long pricingservice took for them.

    Args:
        asked, made, late, refused, failed: offers.
        wasted: replies of pricingservice that came after the cap.
        buckets: upper edge in ms -> calls of pricingservice, from the sending of the request to the end of the reply.
    """

    asked: int
    made: int
    late: int
    refused: int
    failed: int
    wasted: int
    buckets: Mapping[float, int]

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Self:
        """The sum of some rows of GET /counts."""
        sums, buckets = dict.fromkeys(_NAMES, 0), dict[float, int]()
        for row in rows:
            for name in _NAMES:
                sums[name] += row[name]
            for upper_ms, count in row["buckets_ms"]:
                buckets[float(upper_ms)] = buckets.get(float(upper_ms), 0) + count
        return cls(**sums, buckets=buckets)

    def since(self, before: Counts) -> Counts:
        """What has been added."""
        sums = {name: getattr(self, name) - getattr(before, name) for name in _NAMES}
        added = {upper_ms: count - before.buckets.get(upper_ms, 0) for upper_ms, count in self.buckets.items()}
        return Counts(**sums, buckets={upper_ms: count for upper_ms, count in added.items() if count})

    def __add__(self, other: Counts) -> Counts:
        sums = {name: getattr(self, name) + getattr(other, name) for name in _NAMES}
        edges = sorted({*self.buckets, *other.buckets})
        return Counts(**sums, buckets={ms: self.buckets.get(ms, 0) + other.buckets.get(ms, 0) for ms in edges})

    @property
    def samples(self) -> int:
        """Calls of pricingservice that were answered."""
        return sum(self.buckets.values())

    @property
    def ended(self) -> int:
        """Offers that were made, or not."""
        return self.made + self.late + self.refused + self.failed

    def quantile_ms(self, share: float) -> float:
        """What at least `share` of the calls do not exceed, as exact as the buckets; NaN of none."""
        left = max(1, math.ceil(share * self.samples))
        for upper_ms, count in sorted(self.buckets.items()):
            left -= count
            if left <= 0:
                return upper_ms
        return math.nan


def priced(document: Mapping[str, Any]) -> Counts:
    """Of GET /counts: the modes whose price pricingservice makes."""
    return Counts.of(row for row in document["modes"] if row["priced"])
