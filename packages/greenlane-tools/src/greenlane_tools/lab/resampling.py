"""Statistics of many resamples at once: a row of weights says how often each repetition was drawn.

A bootstrap draws whole repetitions. What one draw gives is then a statistic of the same samples with other weights, and
for percentiles and ratios of sums that needs no copy of the samples: 2,000 draws of 200,000 samples take about 10 ms
after one sort.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["Pool", "Quantile", "Weighted", "Weights", "drawn_weights", "of_sums"]

Floats = NDArray[np.float64]
#: int64, (resamples, repetitions): how often each repetition was drawn.
Weights = NDArray[np.int64]


@runtime_checkable
class Weighted(Protocol):
    """A statistic that knows a faster way than being called once a resample."""

    def __call__(self, samples: Floats, /) -> float:
        """Of an unordered array, not empty."""

    def drawn(self, blocks: Sequence[Floats], weights: Weights) -> Floats:
        """Its value for each row of weights."""


class Pool:
    """The samples of all repetitions, sorted once.

    Args:
        blocks: samples of each repetition, any order; at least one, none empty.

    Cost: 8 bytes a sample and 4 more for each repetition; the sort.
    """

    def __init__(self, blocks: Sequence[Floats]) -> None:
        values = np.concatenate(list(blocks))
        owner = np.repeat(np.arange(len(blocks)), [len(block) for block in blocks])
        order = np.argsort(values, kind="stable")
        #: Ascending.
        self.values: Floats = values[order]
        # Row k: how many of the first k values each repetition has.
        self._ranks = np.zeros((len(values) + 1, len(blocks)), np.int32)
        self._ranks[np.arange(1, len(values) + 1), owner[order]] = 1
        np.cumsum(self._ranks, axis=0, out=self._ranks)

    def quantiles(self, share: float, weights: Weights) -> Floats:
        """The quantile (nearest rank) under each row of weights: the rows' bisections take their steps together."""
        wanted = np.ceil(share * (weights @ self._ranks[-1]) - 1e-9).clip(1)
        low, high = np.zeros(len(weights), np.int64), np.full(len(weights), len(self.values))
        for _ in range(math.ceil(math.log2(len(self.values))) + 1):
            middle = (low + high) // 2
            reached = (self._ranks[middle] * weights).sum(axis=1) >= wanted
            high, low = np.where(reached, middle, high), np.where(reached, low, middle)
        result: Floats = self.values[np.minimum(high, len(self.values)) - 1]
        return result


@dataclass(frozen=True)
class Quantile:
    """The smallest value that at least `share` of the samples do not exceed: what `statistics.quantile` gives."""

    share: float

    def __call__(self, samples: Floats, /) -> float:
        """Of an unordered array, not empty."""
        at = max(0, math.ceil(self.share * len(samples) - 1e-9) - 1)
        return float(np.partition(samples, at)[at])

    def drawn(self, blocks: Sequence[Floats], weights: Weights) -> Floats:
        """As `Weighted`."""
        return Pool(blocks).quantiles(self.share, weights)


def drawn_weights(repetitions: int, resamples: int, seed: int) -> Weights:
    """Draws of as many repetitions as there are, with replacement."""
    source = np.random.default_rng(seed)
    return source.multinomial(repetitions, np.full(repetitions, 1 / repetitions), size=resamples).astype(np.int64)


def of_sums(above: Floats, below: Floats, weights: Weights) -> Floats:
    """Ratios of weighted sums, such as hits of trials or CPU of jobs; 0 where the lower sum is 0.

    Args:
        above, below: one value a repetition.
    """
    over, under = weights @ above, weights @ below
    result: Floats = np.divide(over, under, out=np.zeros(len(weights)), where=under > 0)
    return result
