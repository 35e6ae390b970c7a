"""Two sides whose n-th repetitions ran under the same conditions: their ratio, their difference, the intervals.

Student's t over repetitions, 95 %: `differences` judges a comparison by bootstrap, here few runs are held to a target.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from typing import TypeVar

from greenlane_tools.lab.students_t import critical

__all__ = ["Interval", "alone", "difference", "ratio"]

#: The pooled value, and the ends of its interval; NaN = not known.
Interval = tuple[float, float, float]
#: Beyond this factor nothing is known, and nothing overflows.
_MOST_LOG = 50.0

T = TypeVar("T")


def alone(runs: Sequence[T], statistic: Callable[[Sequence[T]], float]) -> Interval:
    """`statistic` of all runs together; its interval as each run gives it."""
    at = statistic(runs)
    half = _half([statistic([one]) for one in runs])
    return at, at - half, at + half


def ratio(ours: Sequence[T], theirs: Sequence[T], statistic: Callable[[Sequence[T]], float]) -> Interval:
    """`statistic` of ours ÷ that of theirs; its interval on logarithms."""
    at = _divided(statistic(ours), statistic(theirs))
    each = [_divided(statistic([a]), statistic([b])) for a, b in zip(ours, theirs, strict=False)]
    if not all(0 < value < math.inf for value in each):
        return at, math.nan, math.nan
    half = min(_half([math.log(value) for value in each]), _MOST_LOG)
    return at, at * math.exp(-half), at * math.exp(half)


def difference(ours: Sequence[T], theirs: Sequence[T], statistic: Callable[[Sequence[T]], float]) -> Interval:
    """`statistic` of ours less that of theirs."""
    at = statistic(ours) - statistic(theirs)
    half = _half([statistic([a]) - statistic([b]) for a, b in zip(ours, theirs, strict=False)])
    return at, at - half, at + half


def _half(values: Sequence[float]) -> float:
    """Half the width of the interval of their mean; NaN of one, and where one is not finite."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return math.nan
    return critical(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def _divided(one: float, other: float) -> float:
    return one / other if other else math.inf
