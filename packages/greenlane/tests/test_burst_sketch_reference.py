"""The native burst histogram does what its plain Python twin does, and bounds the true quantile."""

import math

from hypothesis import given
from hypothesis import strategies as st

import greenlane_testing
from tests.examples import examples
from tests.reference import burst_sketch as reference

BURSTS_NS = st.one_of(
    st.integers(0, 5_000_000_000),
    st.sampled_from([edge_ns + off for edge_ns in reference.EDGES_NS for off in (-1, 0, 1)]),
    st.integers(0, 2**63),
)
QUANTILES = st.sampled_from([0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0])
STEPS = st.lists(
    st.one_of(st.tuples(st.just("update"), BURSTS_NS), st.tuples(st.just("forget"), st.integers(1, 4))), max_size=150
)


@given(steps=STEPS, quantile=QUANTILES)
@examples(200)
def test_every_step_gives_what_the_twin_gives(steps, quantile):
    native, plain = greenlane_testing.BurstSketch(), reference.BurstSketch()
    for name, argument in steps:
        getattr(native, name)(argument)
        getattr(plain, name)(argument)
    assert native.weights() == plain.weights()
    assert native.samples() == plain.samples()
    assert native.mean_ns() == plain.mean_ns()
    assert native.quantile_ns(quantile) == plain.quantile_ns(quantile)
    assert native.mean_over_ns(4_000_000) == plain.mean_over_ns(4_000_000)


@given(bursts_ns=st.lists(st.integers(62_500, 4_000_000_000), min_size=1, max_size=63), quantile=QUANTILES)
@examples(200)
def test_the_quantile_is_at_least_the_true_one_and_at_most_42_percent_above(bursts_ns, quantile):
    sketch = greenlane_testing.BurstSketch()
    for burst_ns in bursts_ns:
        sketch.update(burst_ns)
    # The share is reached within the sample that contains it; weights are whole samples here, nothing is forgotten yet.
    rank = max(1, math.ceil(len(bursts_ns) * quantile * reference.SAMPLE) / reference.SAMPLE)
    true_ns = sorted(bursts_ns)[math.ceil(rank) - 1]
    if quantile > 0:
        assert true_ns <= sketch.quantile_ns(quantile) <= true_ns * 1.42 + 1


@given(before_ns=st.integers(62_500, 10**9), after_ns=st.integers(62_500, 10**9))
@examples(100)
def test_the_mean_follows_a_change_of_behaviour(before_ns, after_ns):
    sketch = greenlane_testing.BurstSketch()
    for burst_ns in [before_ns] * 500 + [after_ns] * 500:
        sketch.update(burst_ns)
    assert abs(sketch.mean_ns() - after_ns) <= 0.05 * max(before_ns, after_ns)
