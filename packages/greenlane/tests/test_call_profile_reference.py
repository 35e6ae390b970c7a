"""What the native side learns of a placed function is what its plain Python twin learns."""

from hypothesis import given
from hypothesis import strategies as st

from greenlane import _native
from tests.examples import examples
from tests.reference.call_profile import CallProfile

TOOK_NS = st.one_of(
    st.sampled_from([0, 50_000, 999_999, 1_000_000, 1_000_001, 4_000_000, 4_000_001, 50_000_000]),
    st.integers(0, 5_000_000_000),
)
CALLS = st.lists(st.tuples(TOOK_NS, st.booleans(), st.integers(1, 40)), max_size=30)
RULES = st.fixed_dictionaries(
    {
        "light_ns": st.sampled_from([0, 1_000_000, 5_000_000]),
        "quantile": st.sampled_from([0.5, 0.9, 0.99]),
        "margin": st.sampled_from([0.5, 1.0, 2.0]),
        "learn_after": st.integers(1, 5),
    }
)


@given(rule=RULES, calls=CALLS)
@examples(150)
def test_every_call_teaches_what_it_teaches_the_twin(rule, calls):
    native, plain = _native.CallProfile(**rule), CallProfile(**rule)
    for took_ns, computed, times in calls:
        for _ in range(times):
            native.update(took_ns, computed)
            plain.update(took_ns, computed)
        assert native.weight() == plain.weight()
        assert native.computes() == plain.computes()
        assert native.expected_ns() == plain.expected_ns()
        assert native.samples() == plain.samples()
