"""Few paired runs held to a target: the value of all, the interval over repetitions, and what is not known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from greenlane_tools.lab import verdict
from greenlane_tools.lab.verdict import Verdict


def mean(runs: Sequence[float]) -> float:
    return sum(runs) / len(runs)


def test_a_ratio_has_the_interval_of_its_logarithms() -> None:
    at, low, high = verdict.ratio([2.0, 8.0], [1.0, 2.0], mean)
    assert at == pytest.approx(10 / 3)
    # ln 2 and ln 4: their standard deviation is ln 2 / sqrt 2; t of one degree of freedom 12.706.
    half = 12.706 * (math.log(2) / math.sqrt(2)) / math.sqrt(2)
    assert math.log(high / at) == pytest.approx(half, abs=1e-3) == pytest.approx(math.log(at / low), abs=1e-3)


def test_a_difference_and_a_value_alone_have_theirs() -> None:
    assert verdict.difference([5.0, 5.0, 5.0], [3.0, 3.0, 3.0], mean) == (2, 2, 2)
    at, low, high = verdict.alone([1.0, 2.0, 3.0], mean)
    assert (at, at - low, high - at) == (2, pytest.approx(2.484, abs=1e-3), pytest.approx(2.484, abs=1e-3))


@pytest.mark.parametrize(
    ("ours", "theirs", "at"), [([4.0], [2.0], 2), ([4.0, 0.0], [1.0, 1.0], 2), ([1.0, 1.0], [0.0, 0.0], math.inf)]
)
def test_what_cannot_be_known_is_nan(ours: list[float], theirs: list[float], at: float) -> None:
    found = verdict.ratio(ours, theirs, mean)
    assert found[0] == at and all(map(math.isnan, found[1:]))
    assert all(map(math.isnan, verdict.alone([math.inf, 1.0], mean)[1:]))


@pytest.mark.parametrize(
    ("measured", "low", "high", "relation", "word"),
    [
        (17, 16, 18, ">=", "holds"),
        (17, 15, 19, ">=", "holds (interval crosses)"),
        (15, 14, 17, ">=", "FAILS (interval crosses)"),
        (15, 14, 15.5, ">=", "FAILS"),
        (15, 14, 16, "<=", "holds"),
        (15, 14, 17, "<=", "holds (interval crosses)"),
        (17, 15, 19, "<=", "FAILS (interval crosses)"),
        (17, 16.5, 18, "<=", "FAILS"),
        (16, 16, 16, "<=", "holds"),
        (16, math.nan, math.nan, ">=", "holds"),
        (math.inf, math.nan, math.nan, "<=", "FAILS"),
    ],
)
def test_a_verdict_doubts_where_its_interval_says_otherwise(
    measured: float, low: float, high: float, relation: str, word: str
) -> None:
    verdict = Verdict("x", measured, low, high, relation, 16)
    assert verdict.word == word and verdict.holds == word.startswith("holds")
    assert verdict.row()["measured"] == (measured if math.isfinite(measured) else None)
