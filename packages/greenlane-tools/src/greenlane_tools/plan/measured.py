"""Latencies that were measured, from arrival: counts in buckets of 2 %, which add up where percentiles do not."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["LEVELS", "Measured", "carried"]

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
