"""The native permit queue does what its plain Python twin does, and keeps its promises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenlane import _native
from tests.examples import examples
from tests.reference import permit_queue as reference

TICKETS = st.integers(0, 9)
TIMES_NS = st.integers(0, 40)
DISCIPLINES = ("fifo", "deadline", "shortest")

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("request"), TICKETS, TIMES_NS, TIMES_NS, TIMES_NS),
        st.tuples(st.just("release"), TICKETS),
        st.tuples(st.just("cancel"), TICKETS),
        st.tuples(st.just("lend"), TICKETS),
    ),
    max_size=60,
)
PAUSES_NS = st.lists(st.integers(0, 12), min_size=60, max_size=60)


@pytest.mark.parametrize("discipline", DISCIPLINES)
@given(permits=st.integers(0, 3), ageing_ns=st.sampled_from([0, 1, 7, 25]), steps=STEPS, pauses_ns=PAUSES_NS)
@examples(300)
def test_every_step_gives_what_the_twin_gives(discipline, permits, ageing_ns, steps, pauses_ns):
    native = _native.PermitQueue(permits, discipline, ageing_ns)
    plain = reference.PermitQueue(permits, discipline, ageing_ns)
    now_ns = 0
    for (name, *arguments), pause_ns in zip(steps, pauses_ns, strict=False):
        now_ns += pause_ns
        ours = getattr(native, name)(now_ns, *arguments)
        assert ours == getattr(plain, name)(now_ns, *arguments), (name, arguments)
        assert (native.holders(), native.waiting()) == (plain.holders(), plain.waiting())
        assert native.expected_ns() == plain.expected_ns()


@pytest.mark.parametrize("discipline", DISCIPLINES)
@given(permits=st.integers(1, 3), claims=st.lists(st.tuples(TIMES_NS, TIMES_NS, TIMES_NS), min_size=1, max_size=30))
@examples(100)
def test_everybody_is_granted_once_and_never_more_than_the_permits(discipline, permits, claims):
    queue = _native.PermitQueue(permits, discipline, 0)
    holding = [ticket for ticket, claim in enumerate(claims) if queue.request(0, ticket, *claim)]
    granted = list(holding)
    while holding:
        assert queue.holders() == len(holding) <= permits
        new = queue.release(1, holding.pop(0))
        holding += new
        granted += new
    assert sorted(granted) == list(range(len(claims)))
    assert (queue.holders(), queue.waiting(), queue.expected_ns()) == (0, 0, 0)


@given(claims=st.lists(st.tuples(TIMES_NS, TIMES_NS, TIMES_NS), min_size=1, max_size=30))
@examples(100)
def test_with_ageing_the_longest_waiter_is_granted_whatever_its_claim(claims):
    queue = _native.PermitQueue(1, "shortest", 100)
    assert queue.request(0, 99, 0, 0, 0)
    for ticket, claim in enumerate(claims):
        assert not queue.request(ticket, ticket, *claim)
    assert queue.release(1_000, 99) == [0]


@pytest.mark.parametrize(("permits", "discipline"), [(1, "lifo"), (1, "")])
def test_an_unknown_discipline_is_refused_by_name(permits, discipline):
    with pytest.raises(ValueError, match="discipline"):
        _native.PermitQueue(permits, discipline, 0)
