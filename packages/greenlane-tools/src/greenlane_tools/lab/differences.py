"""One side against another: the difference and the ratio with their intervals, and how likely chance alone is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from greenlane_tools.lab.statistics import Interval, beyond, critical, error

Floats = NDArray[np.float64]

#: An exponent above this is no longer a ratio.
_MOST: float = 50.0
#: Chance of seeing a difference that is there, for `needed`.
_POWER: float = 0.8
_MOST_REPETITIONS = 1_000


class Scale(Enum):
    """On what the decision is made."""

    #: Logarithms: latencies, rates, costs.
    RATIO = "ratio"
    #: As they are: shares.
    DIFFERENCE = "difference"


@dataclass(frozen=True)
class Side:
    """A statistic of one side."""

    at: float
    # Of each draw of repetitions.
    draws: Floats
    # >= 2.
    repetitions: int


@dataclass(frozen=True)
class Difference:
    """`b` against `a`."""

    # b - a.
    difference: Interval
    # b / a; None when either is not positive.
    ratio: Interval | None
    # Of a difference as large as this or larger if there were none, two-sided; not corrected for others being made.
    p_value: float
    degrees: int
    # Standard error on the scale of the decision.
    error: float


def difference(a: Side, b: Side, *, paired: bool, scale: Scale, least_error: float = 0.0) -> Difference:
    """The difference of two sides.

    Args:
        paired: the n-th repetition of both ran under the same conditions, and `draws` of both are by the same weights:
            what the repetitions share then cancels out.
        scale: ratios need both sides positive, in all draws; else the decision is made on the difference.
        least_error: what the standard error is taken for when the repetitions show none.
    """
    plain_error, degrees = _error(a.draws, b.draws, a.repetitions, b.repetitions, paired=paired)
    plain_error = plain_error or least_error
    half, change = critical(degrees) * plain_error, b.at - a.at
    found = Interval(change - half, change, change + half)
    ratio, log_error, log_degrees = None, 0.0, 1
    if min(a.at, b.at, float(a.draws.min()), float(b.draws.min())) > 0:
        logs = np.log(a.draws), np.log(b.draws)
        log_error, log_degrees = _error(*logs, a.repetitions, b.repetitions, paired=paired)
        ratio = _ratio(b.at / a.at, critical(log_degrees) * log_error)
    if ratio is not None and scale is Scale.RATIO:
        return Difference(found, ratio, _chance(math.log(ratio.at), log_error, log_degrees), log_degrees, log_error)
    return Difference(found, ratio, _chance(change, plain_error, degrees), degrees, plain_error)


def adjusted(p_values: Sequence[float]) -> list[float]:
    """The same, corrected for how many there are: taken together at most 5 of 100 families have a false one below 0.05.

    Source: S. Holm, Scandinavian Journal of Statistics 6 (1979). It needs no independence.
    """
    order = sorted(range(len(p_values)), key=lambda number: p_values[number])
    found, largest = [0.0] * len(p_values), 0.0
    for place, number in enumerate(order):
        largest = max(largest, min(1.0, p_values[number] * (len(p_values) - place)))
        found[number] = largest
    return found


def needed(error: float, repetitions: int, effect: float, tests: int, *, paired: bool) -> int:
    """Repetitions after which such an effect would be seen in 8 of 10 comparisons, if runs go on to vary as they did.

    Args:
        error: standard error with `repetitions` of each side.
        effect: on the same scale, > 0.
        tests: made together: each has that much less room for chance.

    Returns: more than `repetitions`, and at most 1,000, which means "more than can be made".
    """
    low, high = repetitions, _MOST_REPETITIONS
    while high - low > 1:
        middle = (low + high) // 2
        degrees = middle - 1 if paired else 2 * middle - 2
        room = critical(degrees, 0.05 / max(1, tests)) + critical(degrees, 2 * (1 - _POWER))
        enough = room * error * math.sqrt(repetitions / middle) <= effect
        low, high = (low, middle) if enough else (middle, high)
    return high


def _error(a: Floats, b: Floats, of_a: int, of_b: int, *, paired: bool) -> tuple[float, int]:
    """The standard error of b - a and its degrees of freedom (unpaired: B. L. Welch, Biometrika 34, 1947)."""
    if paired:
        return error(b - a, of_a), of_a - 1
    one, other = error(a, of_a) ** 2, error(b, of_b) ** 2
    if one + other == 0:
        return 0.0, of_a + of_b - 2
    degrees = (one + other) ** 2 / (one**2 / (of_a - 1) + other**2 / (of_b - 1))
    return math.sqrt(one + other), max(1, math.floor(degrees + 1e-9))


def _ratio(at: float, half: float) -> Interval:
    return Interval(at * math.exp(-min(half, _MOST)), at, at * math.exp(min(half, _MOST)))


def _chance(effect: float, spread: float, degrees: int) -> float:
    if spread == 0:
        return 0.0 if effect else 1.0
    return beyond(effect / spread, degrees)
