"""Where the native side lets a placed function's calls run is where its plain Python twin does."""

from hypothesis import given
from hypothesis import strategies as st

from greenlane import _native
from tests.examples import examples
from tests.reference.chooser import Chooser

MS = 1_000_000
RULES = st.fixed_dictionaries(
    {
        "light_ns": st.sampled_from([0, MS, 5 * MS]),
        "quantile": st.sampled_from([0.5, 0.9]),
        "margin": st.just(1.0),
        "learn_after": st.integers(1, 4),
        "inline": st.booleans(),
        "process": st.sampled_from([True, True, True, False]),
        "workers": st.integers(0, 3),
        "budget_ns": st.sampled_from([0, 50 * MS, 500 * MS, 60_000 * MS]),
    }
)
NS = st.one_of(st.sampled_from([0, MS // 10, MS, 2 * MS, 50 * MS, 51 * MS, 300 * MS]), st.integers(0, 1_000 * MS))
#: How a function behaves for a while: what a call takes and keeps a loop at each place, its share without the GIL.
STRETCH = st.fixed_dictionaries(
    {
        "took": st.tuples(NS, NS, NS),
        "lag": st.tuples(NS, NS, NS),
        "released": st.sampled_from([0, 300, 700, 1000]),
        "kept": st.sampled_from([0, MS // 10, 5 * MS]),
        "crowd": st.sampled_from([0, 1, 2, 4, 100]),
        "calls": st.integers(1, 90),
        "pause_ns": st.sampled_from([0, MS, 1_000 * MS, 61_000 * MS]),
        "fate": st.sampled_from(["well", "well", "well", "lost", "late", "refused", "forked", "unready"]),
    }
)


@given(rule=RULES, stretches=st.lists(STRETCH, max_size=6), restored=st.sampled_from(["", "inline", "process"]))
@examples(250)
def test_both_choose_the_same_for_every_call(rule, stretches, restored):
    both = (_native.Chooser(**rule), Chooser(**rule))
    now = 1_000 * MS
    if restored:
        for one in both:
            one.restore(restored, "calmer", 40 * MS, now)
    for stretch in stretches:
        fate = stretch["fate"]
        for number in range(stretch["calls"]):
            native, plain = (one.next(now) for one in both)
            assert native == plain
            place = native & 3
            now += stretch["took"][place] + stretch["pause_ns"]
            for one in both:
                end(one, native, now, stretch, place, fate if number == 0 or fate == "unready" else "well")
            assert same(both)


def end(chooser, next_, now, stretch, place, fate):
    if next_ & 16:
        chooser.inspected(stretch["kept"])
    if next_ & 32 and fate != "unready":
        chooser.ready()
    if fate == "refused":
        chooser.refuse(now)
    if fate == "forked":
        chooser.forked()
    if fate == "lost":
        chooser.lost(next_)
    elif fate == "late":
        pass  # it never ends
    elif place == 0:
        chooser.ran_inline(stretch["took"][0])
    else:
        took = stretch["took"][place]
        measured = {"lag_ns": stretch["lag"][place], "released": stretch["released"]} if next_ & 8 else {}
        chooser.observe(
            next_, now, took_ns=took, ran_ns=took, cpu_ns=took // 2, computed=True, crowd=stretch["crowd"], **measured
        )


def same(both):
    native, plain = both
    assert native.chosen() == plain.chosen()
    assert native.seen() == plain.seen()
    assert native.costs() == plain.costs()
    assert native.weighed() == plain.weighed()
    return True
