"""Statistics of many resamples at once: what the plain way gives, and intervals that hold what they promise."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from greenlane_tools.lab import verdict
from greenlane_tools.lab.differences import Scale, Side, adjusted, difference, needed
from greenlane_tools.lab.processes import Block
from greenlane_tools.lab.statistics import Pool, Quantile, beyond, bootstrap, critical, drawn_weights, of_sums, quantile
from greenlane_tools.lab.verdict import Verdict

Floats = NDArray[np.float64]

SHARES = st.sampled_from([0.01, 0.5, 0.9, 0.99, 0.999, 1.0])
BLOCKS = st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=30), min_size=1, max_size=5)


@given(blocks=BLOCKS, share=SHARES, seed=st.integers(0, 9))
def test_quantiles_under_weights_are_those_of_the_repeated_samples(
    blocks: list[list[int]], share: float, seed: int
) -> None:
    arrays = [np.array(block, float) for block in blocks]
    weights = drawn_weights(len(arrays), 8, seed)
    found = Pool(arrays).quantiles(share, weights)
    for row, value in zip(weights, found, strict=True):
        repeated = np.sort(np.concatenate([np.tile(block, times) for block, times in zip(arrays, row, strict=True)]))
        assert value == quantile(repeated, share)


@given(block=st.lists(st.floats(-9, 9), min_size=1, max_size=50), share=SHARES)
def test_a_quantile_is_that_of_the_sorted_samples(block: list[float], share: float) -> None:
    assert Quantile(share)(np.array(block)) == quantile(sorted(block), share)


def test_ratios_of_sums_under_weights() -> None:
    found = of_sums(np.array([1.0, 3.0]), np.array([2.0, 4.0]), np.array([[2, 0], [1, 1], [0, 0]]))
    assert found.tolist() == [0.5, 4 / 6, 0]


@pytest.mark.parametrize(("degrees", "value"), [(1, 12.7062), (2, 4.3027), (4, 2.7764), (9, 2.2622), (30, 2.0423)])
def test_the_t_distribution_is_that_of_the_tables(degrees: int, value: float) -> None:
    assert critical(degrees) == pytest.approx(value, abs=1e-4)
    assert beyond(value, degrees) == pytest.approx(0.05, abs=1e-5)


def test_what_is_certain_and_what_is_nothing() -> None:
    assert beyond(0, 3) == 1 and beyond(math.inf, 3) == 0 and beyond(1e9, 4) < 1e-12


def repetitions(source: np.random.Generator, levels: Floats, samples: int, own: float = 0.0) -> list[Floats]:
    """Lognormal latencies around 1, each repetition shifted by its level and by a deviation of its own."""
    return [np.exp(source.normal(0, 0.5, samples) + level + source.normal(0, own)) for level in levels]


def test_the_fast_way_gives_the_interval_of_the_plain_one() -> None:
    blocks = repetitions(np.random.default_rng(1), np.zeros(4), 200)
    fast = bootstrap(blocks, Quantile(0.9))
    plain = bootstrap(blocks, lambda samples: quantile(np.sort(samples), 0.9))
    assert fast == pytest.approx(plain)


def test_a_single_repetition_has_an_interval_of_its_samples() -> None:
    blocks = repetitions(np.random.default_rng(1), np.zeros(1), 2_000)
    fast = bootstrap(blocks, Quantile(0.5))
    plain = bootstrap(blocks, lambda samples: quantile(np.sort(samples), 0.5), resamples=400)
    assert fast.low < fast.at < fast.high
    assert (fast.low, fast.high) == pytest.approx((plain.low, plain.high), rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("count", [3, 5, 10])
@pytest.mark.parametrize("between", [0.0, 0.1])
def test_intervals_hold_the_truth_as_often_as_they_say(count: int, between: float) -> None:
    source, trials = np.random.default_rng(count), 250
    held = 0
    for _ in range(trials):
        found = bootstrap(repetitions(source, source.normal(0, between, count), 300), Quantile(0.5), resamples=300)
        held += found.low <= 1.0 <= found.high
    # 95 % with the error of this many trials (3 standard errors are 4 points).
    assert 0.91 <= held / trials <= 0.99


def one(source: np.random.Generator, count: int, share: float, effect: float, *, paired: bool) -> tuple[bool, bool]:
    """Whether the interval of the ratio holds the true effect, and whether a difference is seen."""
    drift = source.normal(0, 0.05, count)
    a = repetitions(source, drift, 400, 0.03)
    b = repetitions(source, (drift if paired else source.normal(0, 0.05, count)) + effect, 400, 0.03)
    weights = drawn_weights(count, 300, 1), drawn_weights(count, 300, 1 if paired else 2)
    sides = [
        Side(quantile(np.sort(np.concatenate(blocks)), share), Pool(blocks).quantiles(share, drawn), count)
        for blocks, drawn in zip((a, b), weights, strict=True)
    ]
    found = difference(*sides, paired=paired, scale=Scale.RATIO)
    assert found.ratio is not None
    return found.ratio.low <= math.exp(effect) <= found.ratio.high, found.p_value <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("paired", [False, True])
@pytest.mark.parametrize("share", [0.5, 0.99])
def test_alike_sides_are_seldom_told_apart_and_the_interval_holds(share: float, paired: bool) -> None:
    source, trials = np.random.default_rng(7), 250
    found = [one(source, 5, share, 0.0, paired=paired) for _ in range(trials)]
    assert sum(seen for _, seen in found) / trials <= 0.07
    assert sum(held for held, _ in found) / trials >= 0.92


@pytest.mark.slow
def test_what_differs_is_seen_and_pairing_sees_more() -> None:
    source, trials = np.random.default_rng(7), 100
    power = {
        paired: sum(one(source, 5, 0.5, 0.15, paired=paired)[1] for _ in range(trials)) / trials
        for paired in (False, True)
    }
    assert power[True] >= 0.9 and power[True] > power[False] >= 0.5


def test_pairing_cancels_what_the_repetitions_share() -> None:
    source = np.random.default_rng(1)
    drift, weights = source.normal(0, 0.5, 6), drawn_weights(6, 500, 1)
    a, b = np.exp(drift), np.exp(drift) * 1.1
    sides = [Side(float(each.mean()), weights @ each / 6, 6) for each in (a, b)]
    paired = difference(*sides, paired=True, scale=Scale.RATIO)
    assert paired.ratio is not None
    assert paired.ratio == pytest.approx((1.1, 1.1, 1.1)) and paired.p_value < 1e-9
    assert difference(*sides, paired=False, scale=Scale.RATIO).p_value > 0.5


def test_without_a_ratio_the_difference_decides() -> None:
    nothing, some = Side(0.0, np.zeros(50), 5), Side(0.1, np.linspace(0.05, 0.15, 50), 5)
    found = difference(nothing, some, paired=False, scale=Scale.RATIO)
    assert found.ratio is None and found.difference.at == pytest.approx(0.1) and 0 < found.p_value < 0.1


def test_shares_that_never_varied_are_not_certain() -> None:
    all_of, none_of = Side(1.0, np.ones(50), 5), Side(0.999, np.full(50, 0.999), 5)
    found = difference(all_of, none_of, paired=True, scale=Scale.DIFFERENCE, least_error=0.002)
    assert found.p_value > 0.5


def test_the_correction_is_holms() -> None:
    # Holm's own order: the smallest times 4, the next times 3, never falling.
    assert adjusted([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert adjusted([]) == [] and adjusted([0.9, 0.8]) == [1.0, 1.0]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_a_corrected_probability_is_never_smaller_and_keeps_the_order(values: list[float]) -> None:
    found = adjusted(values)
    assert all(after >= before for before, after in zip(values, found, strict=True))
    order = sorted(range(len(values)), key=lambda number: values[number])
    assert [found[number] for number in order] == sorted(found)


def test_more_repetitions_are_needed_for_less_effect_and_for_more_comparisons() -> None:
    few = needed(0.05, 5, 0.10, 1, paired=True)
    assert 5 < few < needed(0.05, 5, 0.05, 1, paired=True) < needed(0.05, 5, 0.05, 50, paired=True)
    assert needed(9.0, 5, 0.01, 1, paired=True) == 1_000
    assert needed(0.0001, 5, 0.5, 1, paired=False) == 6


# --- Few paired runs held to a target: the value of all, the interval over repetitions, and what is not known.


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


# --- What has begun is ended, however the start or the block ends.


class Parts(Block):
    """Two parts, the second of which may not come up."""

    def __init__(self, *, comes_up: bool = True) -> None:
        self.running: list[str] = []
        self.ended = 0
        self._comes_up = comes_up

    def begin(self) -> None:
        """Begin."""
        self.running.append("first")
        if not self._comes_up:
            raise OSError("no second")
        self.running.append("second")

    def end(self) -> None:
        """End."""
        self.running.clear()
        self.ended += 1


def test_a_block_ends_what_it_has_begun() -> None:
    with Parts() as parts:
        assert parts.running == ["first", "second"]
    assert not parts.running and parts.ended == 1


def test_a_start_that_fails_ends_what_had_begun() -> None:
    parts = Parts(comes_up=False)
    with pytest.raises(OSError, match="no second"), parts:
        pass
    assert not parts.running and parts.ended == 1


def test_what_is_raised_in_the_block_goes_on_when_all_has_ended() -> None:
    parts = Parts()
    with pytest.raises(ValueError, match="inside"), parts:
        raise ValueError("inside")
    assert not parts.running
