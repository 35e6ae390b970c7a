"""What the native side does with the orders of upstream keys is what its plain Python twin does."""

import dataclasses
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from greenlane import _native
from greenlane_work.limits import CallOutcome, UpstreamRule
from tests.examples import examples
from tests.reference.upstreams import Upstreams

MS = 1_000_000
SECOND = 1_000 * MS
KEYS = st.sampled_from(["a", "b", "c", "d", "e"])
RULES = st.builds(
    UpstreamRule,
    limit=st.sampled_from([0, 0, 0, 1, 4]),
    first_limit=st.sampled_from([1, 4, 20]),
    least=st.sampled_from([0, 1, 1, 2]),
    most_frac=st.sampled_from([0.0, 0.3, 0.5, 0.5, 0.9, 1.0]),
    weight=st.sampled_from([1, 1, 3]),
    parked_most=st.sampled_from([0, 3, 1000]),
    parked_most_bytes=st.sampled_from([0, 100, 1 << 20]),
    parked_most_ns=st.sampled_from([0, 2 * SECOND, 600 * SECOND]),
    all_parked_most=st.sampled_from([0, 6, 1000]),
    all_parked_most_bytes=st.sampled_from([0, 200, 1 << 20]),
    failure_rate=st.sampled_from([0.0, 0.5, 0.9]),
    slow_call_rate=st.sampled_from([0.0, 0.5, 0.8]),
    slow_call_x=st.sampled_from([1.5, 5.0]),
    slow_call_ns=st.sampled_from([0, 0, 400 * MS]),
    window=st.sampled_from([1, 5, 20, 64]),
    least_calls=st.sampled_from([1, 3, 10]),
    probes=st.sampled_from([1, 3]),
    open_ns=st.sampled_from([0, SECOND]),
    open_growth=st.sampled_from([1.0, 1.7, 2.0]),
    open_most_ns=st.just(10 * SECOND),
    probe_limit_ns=st.sampled_from([0, SECOND]),
    seed=st.sampled_from([0, 1, 2**64 - 1]),
    forget_ns=st.sampled_from([SECOND, 600 * SECOND]),
    keys_most=st.sampled_from([1, 2, 1000]),
)
#: One stretch: this many orders of a key arrive, then calls end after so long, each with one of these outcomes.
STRETCH = st.fixed_dictionaries(
    {
        "key": KEYS,
        "orders": st.integers(0, 40),
        "size": st.sampled_from([0, 10, 150]),
        "deadline": st.sampled_from([0, 0, 0, 500 * MS]),
        "took": st.dictionaries(KEYS, st.sampled_from([MS, 100 * MS, 300 * MS, SECOND, 3 * SECOND]), max_size=5),
        "outcomes": st.lists(
            st.sampled_from([*CallOutcome, CallOutcome.OK, CallOutcome.OK, CallOutcome.OK]), min_size=1, max_size=6
        ),
        "ends": st.integers(0, 60),
        "pause": st.sampled_from([0, MS, SECOND, 61 * SECOND, 3600 * SECOND]),
        "hand": st.sampled_from(
            [
                "",
                "",
                "",
                "",
                "open",
                "close",
                "set",
                "unset",
                "lease",
                "lease none",
                "unlease",
                "withdraw",
                "drain",
                "presume",
                "probes failed",
                "began",
                "began untimed",
            ]
        ),
        "sheds": st.booleans(),
    }
)


class Both:
    """The two of them, told and asked the same."""

    def __init__(self, slots, rule):
        self.native, self.plain = _native.Upstreams(slots, rule), Upstreams(slots, rule)
        self.rule = rule
        self.now = 100 * SECOND
        self.number = 0
        # order -> (key, began)
        self.calls = {}

    def ask(self, name, *args, plain=None):
        native = getattr(self.native, name)(*args)
        assert native == getattr(self.plain, plain or name)(*args), name
        return native

    def arrive(self, key, size, deadline):
        self.number += 1
        self.ask("arrive", self.number, key, self.now, size, deadline and self.now + deadline)

    def begin_all(self):
        while True:
            start, plain = self.native.next(self.now), self.plain.next(self.now)
            if start is None:
                assert plain is None
                return
            assert (start.order, start.key, start.probe, start.time_limit_ns) == plain
            self.calls[start.order] = (start.key, self.now)

    def end_next(self, took, outcome):
        """End the call that ends first."""
        ends = {order: began + took.get(key, 300 * MS) for order, (key, began) in self.calls.items()}
        order = min(ends, key=lambda order: (ends[order], order))
        self.now = max(self.now, ends[order])
        del self.calls[order]
        assert self.ask("ended", order, self.now, int(outcome))

    def by_hand(self, hand, key):
        if hand in ("open", "close"):
            getattr(self.native, hand)(key, self.now)
            getattr(self.plain, hand)(key, self.now)
        elif hand in ("set", "unset"):
            rule = dataclasses.replace(self.rule, limit=2, least=2, most_frac=0.7) if hand == "set" else None
            self.native.set(key, self.now, rule)
            self.plain.set(key, self.now, rule)
        elif hand.endswith("lease") or hand == "lease none":
            calls = {"lease": 2, "lease none": 0, "unlease": None}[hand]
            self.native.lease(key, self.now, calls)
            self.plain.lease(key, self.now, calls)
        elif hand == "presume":
            self.ask("presume", key, self.now, 20 * MS)
        elif hand == "probes failed":
            self.ask("probes_failed", key, self.now, 3 * SECOND)
        elif hand.startswith("began"):
            for order, (name, _) in [*self.calls.items()]:
                if name == key:
                    self.ask("began", order, self.now, hand == "began")
                    self.calls[order] = (name, self.now)
        elif hand == "withdraw":
            self.ask("withdraw", self.number, self.now)
        elif hand == "drain":
            self.ask("drain", self.now, plain="drain_all")

    def compare(self):
        looks = self.native.look()
        plain = self.plain.look()
        assert [look.key for look in looks] == [look["key"] for look in plain]
        for native, expected in zip(looks, plain, strict=True):
            assert {name: getattr(native, name) for name in expected} == expected
            alone = self.native.look_at(native.key)
            assert {name: getattr(alone, name) for name in expected} == expected
        totals = self.native.totals()
        assert self.plain.totals() == (
            totals.running, totals.parked, totals.parked_bytes, totals.keys, totals.reserved, totals.common,
        )  # fmt: skip


@pytest.mark.slow
@given(slots=st.sampled_from([1, 2, 10, 60]), rule=RULES, stretches=st.lists(STRETCH, max_size=8))
@examples(150)
def test_both_begin_the_same_order_whenever_asked(slots, rule, stretches):
    both = Both(slots, rule)
    for stretch in stretches:
        both.by_hand(stretch["hand"], stretch["key"])
        for _ in range(stretch["orders"]):
            both.arrive(stretch["key"], stretch["size"], stretch["deadline"])
        both.begin_all()
        for number in range(min(stretch["ends"], len(both.calls))):
            both.end_next(stretch["took"], stretch["outcomes"][number % len(stretch["outcomes"])])
            both.begin_all()
        if stretch["sheds"]:
            both.ask("surplus", both.now)
            both.ask("expired", both.now)
        both.ask("wake_ns", both.now)
        both.ask("load", stretch["key"])
        both.compare()
        both.now += stretch["pause"]


@pytest.mark.slow
def test_both_give_strangers_the_same_turns_beside_many_known_keys():
    both = Both(20, UpstreamRule())
    random = Random(7)
    known = [f"known-{number}" for number in range(40)]
    for name in known:
        both.arrive(name, 10, 0)
    both.begin_all()
    for step in range(1500):
        for name in random.choices(known, k=2):
            both.arrive(name, 10, 0)
        if step % 3 == 0:
            both.arrive(f"new-{step}", 10, 0)
        both.end_next({}, random.choices(list(CallOutcome), (50, 1, 1, 1, 1))[0])
        both.begin_all()
    both.compare()


#: How four upstreams behave for a while: what a call takes, and what each other call in progress adds to that.
WEATHER = st.fixed_dictionaries(
    {
        "took": st.tuples(*[st.sampled_from([50 * MS, 100 * MS, 100 * MS, 170 * MS, 400 * MS, 3 * SECOND])] * 4),
        "all": st.sampled_from([1, 1, 1, 4]),
        "load": st.tuples(*[st.sampled_from([0, 0, 0, 30 * MS])] * 4),
        "calls": st.integers(10, 250),
        "backlog": st.sampled_from([0, 3, 40]),
        "times_out": st.sampled_from([0, 0, 0, 9]),
    }
)


@pytest.mark.slow
@given(
    rule=st.builds(
        UpstreamRule,
        first_limit=st.sampled_from([1, 4, 12]),
        least=st.sampled_from([1, 2]),
        most_frac=st.sampled_from([0.5, 1.0]),
        slow_call_rate=st.sampled_from([0.0, 0.0, 0.8]),
        failure_rate=st.sampled_from([0.0, 0.6]),
        open_ns=st.just(SECOND),
    ),
    weathers=st.lists(WEATHER, min_size=2, max_size=6),
)
@examples(25)
def test_both_learn_the_same_limits_from_the_same_latencies(rule, weathers):
    both = Both(60, rule)
    for weather in weathers:
        took = dict(zip("abcd", (ns * weather["all"] for ns in weather["took"]), strict=True))
        load = dict(zip("abcd", weather["load"], strict=True))
        for number in range(weather["calls"]):
            waiting = {look.key: look.parked for look in both.native.look()}
            for key in took:
                for _ in range(max(weather["backlog"], 1) - waiting.get(key, 0)):
                    both.arrive(key, 1, 0)
            both.begin_all()
            if not both.calls:
                both.now = both.ask("wake_ns", both.now)
                continue
            running = {key: sum(of == key for of, _ in both.calls.values()) for key in took}
            now_take = {key: took[key] + load[key] * running[key] for key in took}
            times_out = weather["times_out"] and number % weather["times_out"] == 0
            both.end_next(now_take, CallOutcome.TIMED_OUT if times_out else CallOutcome.OK)
        both.compare()
