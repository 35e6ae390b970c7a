"""Logarithmic histograms: percentiles at most 1.1 % too high, and sums of histograms are histograms of sums."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from greenlane_tools.lab.load.histogram import Histogram, histograms
from greenlane_tools.lab.samples import FAILED, Samples
from greenlane_tools.lab.statistics import quantile

latencies = st.lists(st.floats(min_value=0.002, max_value=100_000), min_size=1, max_size=50)


@given(latencies, st.floats(min_value=0.01, max_value=1.0))
def test_a_percentile_is_at_most_a_bucket_too_high(values: list[float], share: float) -> None:
    exact = quantile(sorted(values), share)
    read = Histogram.of(np.array(values)).quantile_ms(share)
    assert exact * (1 - 1e-9) <= read <= exact * 1.011 * (1 + 1e-9)


@given(latencies, latencies)
def test_histograms_add_up(one: list[float], other: list[float]) -> None:
    added = Histogram.of(np.array(one)) + Histogram.of(np.array(other))
    assert np.array_equal(added.counts, Histogram.of(np.array(one + other)).counts)
    assert added.total == len(one) + len(other)


def test_what_is_beyond_the_ends_is_counted_at_them() -> None:
    extreme = Histogram.of(np.array([-1.0, 0.0, 1e9, math.inf]))
    assert [count for _, _, count in extreme.rows()] == [2, 2]


def test_nothing_has_no_percentile() -> None:
    empty = Histogram.of(np.empty(0))
    assert math.isnan(empty.quantile_ms(0.5)) and empty.rows() == []


def test_each_class_has_a_histogram_of_its_answered_requests() -> None:
    zero = np.zeros(3, np.int64)
    done = np.array([1_000_000, 2_000_000, 3_000_000])
    status = np.array([200, 200, FAILED], np.int16)
    samples = Samples(
        ("a", "b"), np.array([0, 1, 1], np.uint16), zero, zero, zero, done, status, zero.astype(np.int32), zero * 1.0
    )
    assert {name: one.total for name, one in histograms(samples).items()} == {"a": 1, "b": 1}
