"""Latencies as counts in logarithmic buckets: what HDR histograms do, over the samples that are kept anyway.

Each bucket is 1.1 % wide, so a percentile read from one is at most that much too high; histograms of several runs or
processes merge by addition, which percentiles never do. numpy counts a million samples in some 20 ms, after the run;
hdrhistogram's C extension takes half a second for it and is for those who must count while it runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from greenlane_tools.lab.samples import Samples

__all__ = ["Histogram", "histograms"]

_LOWEST_MS: Final = 1e-3
_PER_OCTAVE: Final = 64
# 1 us to 134 s: beyond any time-out.
_BUCKETS: Final = 27 * _PER_OCTAVE


@dataclass(frozen=True)
class Histogram:
    """Counts by bucket."""

    # int64: bucket n holds [edge_ms(n), edge_ms(n + 1)); the first what is less as well, the last what is more.
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, latencies_ms: NDArray[np.float64]) -> Histogram:
        """Counts latencies, any order."""
        with np.errstate(divide="ignore", invalid="ignore"):
            bucket = np.floor(np.log2(latencies_ms / _LOWEST_MS) * _PER_OCTAVE)
        number = np.clip(np.nan_to_num(bucket, nan=0.0), 0, _BUCKETS - 1).astype(np.int64)
        return cls(np.bincount(number, minlength=_BUCKETS))

    def __add__(self, other: Histogram) -> Histogram:
        return Histogram(self.counts + other.counts)

    @property
    def total(self) -> int:
        """How many were counted."""
        return int(self.counts.sum())

    def quantile_ms(self, share: float) -> float:
        """What at least `share` of them do not exceed, at most 1.1 % too high; nan of none."""
        if not self.total:
            return math.nan
        rank = max(1, math.ceil(share * self.total))
        return edge_ms(int(np.searchsorted(np.cumsum(self.counts), rank)) + 1)

    def rows(self) -> list[tuple[float, float, int]]:
        """(from ms, to ms, count) of each bucket that is not empty, ascending."""
        return [(edge_ms(int(at)), edge_ms(int(at) + 1), int(self.counts[at])) for at in np.flatnonzero(self.counts)]


def edge_ms(bucket: int) -> float:
    """Where a bucket begins."""
    return float(_LOWEST_MS * 2 ** (bucket / _PER_OCTAVE))


def histograms(samples: Samples) -> dict[str, Histogram]:
    """A histogram of each stream, of what percentiles are taken of (`Samples.answered`)."""
    return {name: Histogram.of(samples.of(name).answered()) for name in samples.streams}
