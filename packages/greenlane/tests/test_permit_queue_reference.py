"""The native permit queue does what its plain Python twin does, and keeps its promises."""

from hypothesis import given
from hypothesis import strategies as st

from greenlane import _native
from tests.examples import examples
from tests.reference import permit_queue as reference

TICKETS = st.integers(0, 9)
MS = 1_000_000
TIMES_NS = st.integers(0, 400).map(lambda ms: ms * MS)
CLAIMS = st.tuples(TIMES_NS, TIMES_NS, TIMES_NS, TIMES_NS, TIMES_NS)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("request"), TICKETS, TIMES_NS, TIMES_NS, TIMES_NS, TIMES_NS, TIMES_NS),
        st.tuples(st.just("release"), TICKETS),
        st.tuples(st.just("cancel"), TICKETS),
        st.tuples(st.just("lend"), TICKETS),
        st.tuples(st.just("share"), TICKETS),
        st.tuples(st.just("call_back"), TICKETS),
    ),
    max_size=60,
)
PAUSES_NS = st.lists(st.integers(0, 300).map(lambda ms: ms * MS), min_size=60, max_size=60)


@given(permits=st.integers(0, 3), steps=STEPS, pauses_ns=PAUSES_NS)
@examples(300)
def test_every_step_gives_what_the_twin_gives(permits, steps, pauses_ns):
    native = _native.PermitQueue(permits)
    plain = reference.PermitQueue(permits)
    now_ns = 0
    for (name, *arguments), pause_ns in zip(steps, pauses_ns, strict=False):
        now_ns += pause_ns
        clock = (now_ns,) if name == "request" else ()
        ours = getattr(native, name)(*clock, *arguments)
        assert ours == getattr(plain, name)(*clock, *arguments), (name, arguments)
        assert (native.holders(), native.waiting()) == (plain.holders(), plain.waiting())


@given(permits=st.integers(1, 3), claims=st.lists(CLAIMS, min_size=1, max_size=30))
@examples(100)
def test_everybody_is_granted_once_and_at_most_two_beside_the_permits(permits, claims):
    queue = _native.PermitQueue(permits)
    holding = [ticket for ticket, claim in enumerate(claims) if queue.request(0, ticket, *claim)]
    granted = list(holding)
    while holding:
        assert queue.holders() == len(holding) <= permits + 2
        new = queue.release(holding.pop(0))
        holding += new
        granted += new
    assert sorted(granted) == list(range(len(claims)))
    assert (queue.holders(), queue.waiting()) == (0, 0)


@given(sizes_ns=st.lists(TIMES_NS, min_size=1, max_size=20))
@examples(100)
def test_nobody_is_passed_by_what_came_long_after(sizes_ns):
    queue = _native.PermitQueue(1)
    assert queue.request(0, 99, 0, 0, 0)
    assert not queue.request(0, 98, 0, 0, 400 * MS)
    for ticket, size_ns in enumerate(sizes_ns):
        assert not queue.request(MS, ticket, 1_000 * MS, 0, size_ns)
    assert queue.release(99) == [98]
