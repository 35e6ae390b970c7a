"""Percentiles by nearest rank, and the neighbours of one: what a percentile consists of is their mean."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, TypeVar

__all__ = ["LEVELS", "levels", "nearest", "neighbours"]

T = TypeVar("T")

#: Name and share of the percentiles that reports give.
LEVELS: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "p999": 0.999}
#: A percentile further out than its samples carry is not given.
_SAMPLES_FOR_P999: Final = 10_000
#: At most so many jobs to each side of a percentile are averaged: enough to be stable, too few to blur it.
_REACH: Final = 50


def levels(samples: int) -> dict[str, float]:
    """The percentiles that so many samples can carry."""
    return {name: at for name, at in LEVELS.items() if name != "p999" or samples >= _SAMPLES_FOR_P999}


def nearest(ordered: Sequence[T], at: float) -> T:
    """The smallest value that at least the share `at` of an ascending, non-empty sequence does not exceed."""
    return ordered[max(0, math.ceil(at * len(ordered)) - 1)]


def neighbours(ordered: Sequence[T], at: float) -> Sequence[T]:
    """Values around a percentile: half way to the end on the far side, as many on the near one, at most 50 each."""
    rank = max(0, math.ceil(at * len(ordered)) - 1)
    reach = min(_REACH, int((1 - at) * len(ordered) / 2), int(0.05 * len(ordered)))
    return ordered[max(0, rank - reach) : rank + reach + 1]
