"""What one worker's probes have found, the others know."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from greenlane._native import Upstreams
from greenlane_work.limits import CallOutcome, UpstreamRule
from greenlane_work.order import Order, Run
from greenlane_work.worker.owner import do_all
from greenlane_work.worker.probes import COMMAND, Probes

S = 1_000_000_000


class Worker:
    """A worker whose breaker of `taco` has opened for 5 s; what it says goes to all, also to itself."""

    def __init__(self, others: list[Worker], provider: str = "") -> None:
        self.now_ns = S
        self.all = [*others, self]
        self.posted: deque[Callable[[], object]] = deque()
        self.said: list[dict[str, Any]] = []
        self.name = provider or "taco"
        self.key = f"{provider}/" if provider else self.name
        self.upstreams = Upstreams(50, UpstreamRule())
        own: Any = self
        of_keys, of_providers = (Upstreams(50, UpstreamRule()), self.upstreams) if provider else (self.upstreams, None)
        self.probes = Probes(
            of_keys, of_providers, own, keyed=True, elsewhere=lambda _name, call: call(None),
            clock_ns=lambda: self.now_ns,
        )  # fmt: skip
        self.numbers = 0
        self.fail(self.name)

    def fail(self, name: str) -> None:
        """Ten calls, all failed."""
        calls = [self.begin(name) for _ in range(10)]
        for number in calls:
            self.upstreams.ended(number, self.now_ns, CallOutcome.FAILED)

    def begin(self, name: str, *, probe: bool = False) -> int:
        self.numbers += 1
        self.upstreams.arrive(self.numbers, name, self.now_ns)
        start = self.upstreams.next(self.now_ns)
        assert start is not None and (start.order, start.probe) == (self.numbers, probe)
        return self.numbers

    def post(self, call: Callable[[], object]) -> None:
        self.posted.append(call)

    def broadcast(self, command: str, arguments: dict[str, Any]) -> None:
        assert command == COMMAND
        self.said.append({name: value for name, value in arguments.items() if name != "by"})
        for other in self.all:
            other.probes.command(None, **arguments)
            do_all(other.posted)

    def probe(self, outcome: CallOutcome = CallOutcome.OK) -> None:
        """Begin an order as a probe, and end it."""
        self.end(self.begin(self.name, probe=True), outcome)

    def end(self, number: int, outcome: CallOutcome) -> None:
        self.upstreams.ended(number, self.now_ns, outcome)
        order = Order(number, id="o", key=self.key, name="t", size=0)
        conf = SimpleNamespace(worker_enable_remote_control=True)
        order.request = SimpleNamespace(app=SimpleNamespace(conf=conf, control=self))
        self.probes.ended(Run(order, probes=(self.key,)), well=outcome is CallOutcome.OK)

    def breaker(self) -> str:
        look = self.upstreams.look_at(self.name)
        assert look is not None
        return look.breaker

    def open_s(self) -> float:
        look = self.upstreams.look_at(self.name)
        assert look is not None
        return (look.open_until_ns - self.now_ns) / S


@pytest.mark.parametrize("provider", ["", "visa"])
def test_when_the_probes_of_one_have_closed_its_breaker_the_others_close_theirs(provider: str) -> None:
    other = Worker([], provider)
    one = Worker([other], provider)
    one.now_ns += 6 * S
    one.probe()
    one.probe()
    assert (one.said, one.breaker(), other.breaker()) == ([], "half-open", "open")
    one.probe()
    assert one.said == [{"key": one.key, "seconds": 0}]
    assert (one.breaker(), other.breaker()) == ("closed", "closed")
    other.begin(other.name)


@pytest.mark.parametrize("provider", ["", "visa"])
def test_when_the_probes_of_one_have_failed_the_others_wait_as_long(provider: str) -> None:
    other = Worker([], provider)
    one = Worker([other], provider)
    for worker in (one, other):
        worker.now_ns += 5 * S
    first, second, third = (one.begin(one.name, probe=True) for _ in range(3))
    one.end(first, CallOutcome.FAILED)
    assert (one.said, other.open_s()) == ([], 0)
    one.end(second, CallOutcome.FAILED)
    one.end(third, CallOutcome.FAILED)
    assert one.said == [{"key": one.key, "seconds": 10}]
    assert (one.open_s(), other.open_s()) == (10, 10)
    # Its own probes are the second failure that it knows of, not the first.
    other.now_ns += 10 * S
    other.probe(CallOutcome.FAILED)
    other.probe(CallOutcome.FAILED)
    assert other.open_s() == 20


def test_probes_that_are_under_way_decide_by_themselves() -> None:
    other = Worker([])
    one = Worker([other])
    other.all = one.all
    for worker in (one, other):
        worker.now_ns += 6 * S
    under_way = other.begin("taco", probe=True)
    one.probe(CallOutcome.FAILED)
    one.probe(CallOutcome.FAILED)
    assert (one.breaker(), other.breaker()) == ("open", "half-open")
    other.end(under_way, CallOutcome.OK)
    other.probe()
    other.probe()
    assert (one.breaker(), other.breaker()) == ("closed", "closed")


def test_one_to_whom_most_upstreams_fail_says_nothing_to_the_others() -> None:
    other = Worker([])
    one = Worker([other])
    one.now_ns += 6 * S
    for name in ("pizza", "sushi"):
        one.fail(name)
    assert one.upstreams.totals().common
    one.probe(CallOutcome.FAILED)
    one.probe(CallOutcome.FAILED)
    assert (one.breaker(), one.said) == ("open", [])


def test_a_probe_that_fails_after_the_breaker_has_closed_says_nothing() -> None:
    one = Worker([])
    one.now_ns += 6 * S
    late = one.begin("taco", probe=True)
    one.probes.command(None, key="taco", seconds=0, by="another")
    do_all(one.posted)
    one.end(late, CallOutcome.FAILED)
    assert (one.breaker(), one.said) == ("closed", [])


@pytest.mark.parametrize("seconds", [0, 30])
def test_what_is_open_by_hand_stays_open(seconds: int) -> None:
    worker = Worker([])
    worker.upstreams.open("taco", worker.now_ns)
    worker.probes.command(None, key="taco", seconds=seconds, by="another")
    do_all(worker.posted)
    assert worker.breaker() == "forced-open"


@pytest.mark.parametrize("seconds", [0, 30])
def test_a_closed_breaker_stays_closed(seconds: int) -> None:
    worker = Worker([])
    worker.upstreams.close("taco", worker.now_ns)
    worker.probes.command(None, key="taco", seconds=seconds, by="another")
    do_all(worker.posted)
    assert worker.breaker() == "closed"


@pytest.mark.parametrize(
    "said",
    [
        {}, {"key": 7, "seconds": 0}, {"key": "unknown", "seconds": 0}, {"key": "taco"}, {"key": "taco", "seconds": -1},
        {"key": "taco", "seconds": "9"}, {"key": "taco", "seconds": float("nan")}, {"key": "taco", "seconds": 1e300},
    ],
)  # fmt: skip
def test_a_word_about_nobody_changes_nothing(said: dict[str, Any]) -> None:
    worker = Worker([])
    worker.probes.command(None, **said)
    do_all(worker.posted)
    assert (worker.breaker(), worker.open_s()) == ("open", 5)
