"""The native rule of what comes too late does what its plain Python twin does, and keeps its promises."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from greenlane._native import Shed
from tests.examples import examples
from tests.reference import shed as reference

#: Small numbers, so that every bound is met exactly and on both sides; quarters, so that floats are exact.
TIMES_NS = st.integers(0, 40)
RULES = st.fixed_dictionaries({
    "waited_ns": st.integers(0, 8),
    "stands_ns": st.integers(0, 12),
    "stands_count": st.integers(0, 4),
    "frac": st.sampled_from([0.0, 0.5, 0.75, 1.0]),
    "most": st.sampled_from([0.25, 0.75, 1.0]),
})  # fmt: skip
PICKED = st.tuples(st.just("refuses"), TIMES_NS, st.none() | TIMES_NS, st.integers(0, 6))
SERVED = st.tuples(st.just("served"), TIMES_NS, TIMES_NS)
#: Runs of alike requests: the p99 is taken again at each 16th, of the last 256.
STEPS = st.lists(st.tuples(PICKED | SERVED, st.sampled_from([1, 1, 1, 3, 16, 100])), max_size=30)


def exact(rule: dict[str, float]) -> dict[str, float | Fraction]:
    return {**rule, "frac": Fraction(rule["frac"]), "most": Fraction(rule["most"])}


@given(rule=RULES, steps=STEPS)
@examples(400)
def test_every_request_is_judged_as_the_twin_judges_it(rule, steps):
    native, plain = Shed(**rule), reference.Shed(**exact(rule))
    now_ns = 100
    for (name, *arguments), times in steps:
        for _ in range(times):
            if name == "served":
                native.served(*arguments)
                plain.served(*arguments)
            else:
                waited_ns, span_ns, pause_ns = arguments
                now_ns += pause_ns
                arrival_ns = now_ns - waited_ns
                picked = (arrival_ns, 0 if span_ns is None else arrival_ns + span_ns, now_ns)
                assert native.refuses(*picked) == plain.refuses(*picked)
            assert native.p99_ns() == plain.p99_ns()


@given(rule=RULES, waits_ns=st.lists(st.tuples(TIMES_NS, TIMES_NS), max_size=60), took_ns=st.integers(0, 1000))
@examples(200)
def test_no_history_refuses_who_has_waited_less_than_may_always_be_waited(rule, waits_ns, took_ns):
    native = Shed(**rule)
    for _ in range(16):
        native.served(took_ns, 0)
    now_ns = 1000
    for waited_ns, span_ns in waits_ns:
        now_ns += 1
        arrival_ns = now_ns - waited_ns
        refused = native.refuses(arrival_ns, arrival_ns + span_ns, now_ns)
        if span_ns > waited_ns and waited_ns <= (1 - rule["most"]) * span_ns:
            assert not refused


def test_an_arrival_before_the_clock_began_is_an_arrival():
    """The wall clock is set after the machine has started: a header's moment lies before the monotonic clock's 0."""
    native = Shed(waited_ns=5, stands_ns=0, stands_count=1, frac=0.99, most=0.75)
    assert native.refuses(-100, -50, 10)
    assert not native.refuses(-100, 0, 10)
