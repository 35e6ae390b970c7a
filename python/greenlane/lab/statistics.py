"""Percentiles, shares and differences with their intervals. All of 95 %."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Interval", "bootstrap", "quantile", "wilson"]

# 97.5 % quantile of the normal distribution.
_Z: Final = 1.959964
#: Resamples of a bootstrap: the ends of a 95 % interval are then themselves known to about 1 % of its width.
RESAMPLES: Final = 2_000


class Interval(NamedTuple):
    """A value, and between what it lies in 95 of 100 such measurements."""

    low: float
    at: float
    high: float


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
    """The percentile bootstrap of a statistic over repetitions (B. Efron, Annals of Statistics 7, 1979).

    Whole repetitions are drawn, then samples within each: requests of one run share its queues and its machine, and an
    interval that takes them for independent is several times too narrow.

    Args:
        blocks: samples of each repetition, any order; at least one, none empty.
        statistic: of an unordered array.
    """
    source = np.random.default_rng(seed)
    found = np.empty(resamples)
    for number in range(resamples):
        chosen = source.integers(0, len(blocks), len(blocks))
        found[number] = statistic(
            np.concatenate([blocks[at][source.integers(0, len(blocks[at]), len(blocks[at]))] for at in chosen])
        )
    low, high = np.quantile(found, [0.025, 0.975])
    return Interval(float(low), statistic(np.concatenate(list(blocks))), float(high))
