"""Percentiles, shares and differences with their intervals. All of 95 %."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

# --- Statistics of many resamples at once: a row of weights says how often each repetition was drawn.


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


# 97.5 % quantile of the normal distribution.
_Z: Final = 1.959964
#: Arbitrary: one slow request more or less then moves a percentile by a fifth of its tail.
BEYOND: Final = 5
#: Resamples of a bootstrap: the spread of the draws is then itself known to about 2 %.
RESAMPLES: Final = 2_000


class Interval(NamedTuple):
    """A value, and between what it lies in 95 of 100 such measurements."""

    low: float
    at: float
    high: float


def enough(share: float) -> int:
    """Samples that a percentile should stand on: so many that `BEYOND` lie beyond it."""
    return math.ceil(BEYOND / (1 - share))


def quantile(ordered: Sequence[float] | NDArray[np.float64], share: float) -> float:
    """The smallest value that at least `share` of an ascending, non-empty sequence does not exceed (nearest rank)."""
    return float(ordered[max(0, math.ceil(share * len(ordered)) - 1)])


def wilson(hits: int, trials: int) -> tuple[float, float]:
    """The interval of a share: E. B. Wilson, JASA 22 (1927); (0, 1) of no trials.

    Why not hits ± 2 s: at shares near 1, where ours are, that interval has no width.
    """
    if trials == 0:
        return 0.0, 1.0
    share = hits / trials
    scale = 1 + _Z**2 / trials
    middle = share + _Z**2 / (2 * trials)
    half = _Z * math.sqrt(share * (1 - share) / trials + _Z**2 / (4 * trials**2))
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def bootstrap(
    blocks: Sequence[NDArray[np.float64]],
    statistic: Callable[[NDArray[np.float64]], float],
    *,
    resamples: int = RESAMPLES,
    seed: int = 1,
) -> Interval:
    """The interval of a statistic over repetitions.

    Whole repetitions are drawn: requests of one run share its queues and its machine, and an interval that takes them
    for independent is several times too narrow. The spread of the draws is that of the statistic; it is widened by
    Student's t for so few repetitions, on logarithms where all draws are positive. docs/compare.md says why not the
    percentiles of the draws, and how often the interval holds what it should. Of one block samples are drawn as if
    they were independent: honest only if they are.

    Args:
        blocks: samples of each repetition, any order; at least one, none empty.
        statistic: of an unordered array; `resampling.Quantile` is fast, any other is called up to `resamples` times.

    Source: B. Efron, Annals of Statistics 7 (1979); A. C. Davison, D. V. Hinkley, Bootstrap Methods and their
    Application (1997), 3.8, on drawing clusters without drawing within them.
    """
    blocks = list(blocks)
    at = statistic(np.concatenate(blocks))
    if len(blocks) == 1:
        low, high = np.quantile(_of_one(blocks[0], statistic, resamples, seed), [0.025, 0.975])
        return Interval(float(low), at, float(high))
    weights = drawn_weights(len(blocks), resamples, seed)
    if isinstance(statistic, Weighted):
        return interval(at, statistic.drawn(blocks, weights), len(blocks))
    # Few repetitions can be drawn in few ways: each is computed once.
    ways, which = np.unique(weights, axis=0, return_inverse=True)
    parts = ([block for block, times in zip(blocks, way, strict=True) for _ in range(times)] for way in ways)
    values = np.array([statistic(np.concatenate(part)) for part in parts])
    return interval(at, values[which.reshape(-1)], len(blocks))


def interval(at: float, draws: NDArray[np.float64], repetitions: int) -> Interval:
    """The interval around a value, from what draws of the repetitions gave.

    Args:
        repetitions: >= 2.
    """
    positive = at > 0 and bool((draws > 0).all())
    half = critical(repetitions - 1) * error(np.log(draws) if positive else draws, repetitions)
    if not positive:
        return Interval(at - half, at, at + half)
    # Beyond e^50 nothing is known, and nothing overflows.
    return Interval(at * math.exp(-min(half, 50)), at, at * math.exp(min(half, 50)))


def error(draws: NDArray[np.float64], repetitions: int) -> float:
    """The standard error that draws of `repetitions` >= 2 show: they spread less than what they were drawn from."""
    return float(draws.std()) * math.sqrt(repetitions / (repetitions - 1))


def _of_one(
    block: NDArray[np.float64], statistic: Callable[[NDArray[np.float64]], float], resamples: int, seed: int
) -> NDArray[np.float64]:
    source, size = np.random.default_rng(seed), len(block)
    if isinstance(statistic, Quantile):
        # The rank that the drawn quantile had before: the order statistic of this many uniform numbers.
        rank = max(1, math.ceil(statistic.share * size - 1e-9))
        places = np.ceil(size * source.beta(rank, size - rank + 1, resamples)).astype(np.int64).clip(1, size)
        found: NDArray[np.float64] = np.sort(block)[places - 1]
        return found
    return np.array([statistic(block[source.integers(0, size, size)]) for _ in range(resamples)])


# --- Student's t distribution for whole degrees of freedom: what few repetitions call for instead of the normal one.
#
# Source: M. Abramowitz, I. A. Stegun, Handbook of Mathematical Functions (1964), 26.7.3 and 26.7.4: finite sums. A
# library of statistics would be a dependency of 30 MB for these twenty lines.


def beyond(t: float, degrees: int) -> float:
    """Probability of a value further from 0 than `t`, on either side.

    Args:
        degrees: of freedom, >= 1.
    """
    if math.isinf(t):
        return 0.0
    angle = math.atan(abs(t) / math.sqrt(degrees))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for step in range(2 + odd, degrees + 1, 2):
        total += term
        term *= cosine**2 * (step - 1) / step
    inside = (angle + sine * total) * 2 / math.pi if odd else sine * total
    return min(1.0, max(0.0, 1 - inside))


@lru_cache(maxsize=256)
def critical(degrees: int, outside: float = 0.05) -> float:
    """The value beyond which, on both sides together, lies the share `outside`."""
    low, high = 0.0, 1.0
    while beyond(high, degrees) > outside:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if beyond(middle, degrees) > outside else (low, middle)
    return high
