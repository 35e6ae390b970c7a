"""What one worker's probes have found, the others know."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from greenlane._native import Upstreams
from greenlane_work.limits import CallOutcome, UpstreamRule
from greenlane_work.order import Order
from greenlane_work.worker.owner import do_all
from greenlane_work.worker.recoveries import COMMAND, Recoveries

S = 1_000_000_000


class Worker:
    """A worker whose breaker of `taco` has opened; what it says goes to the others."""

    def __init__(self, others: list[Worker]) -> None:
        self.now_ns = S
        self.others = others
        self.posted: deque[Callable[[], object]] = deque()
        self.said: list[dict[str, str]] = []
        self.upstreams = Upstreams(50, UpstreamRule())
        own: Any = self
        self.recoveries = Recoveries(
            self.upstreams, own, keyed=True, elsewhere=lambda call: call(None), turn=lambda: None,
            clock_ns=lambda: self.now_ns,
        )  # fmt: skip
        for number in range(10):
            self.arrive(number)
            assert self.upstreams.next(self.now_ns) is not None
        for number in range(10):
            self.upstreams.ended(number, self.now_ns, CallOutcome.FAILED)

    def post(self, call: Callable[[], object]) -> None:
        self.posted.append(call)

    def broadcast(self, command: str, arguments: dict[str, str]) -> None:
        assert command == COMMAND
        self.said.append(arguments)
        for other in self.others:
            other.recoveries.command(None, **arguments)
            do_all(other.posted)

    def arrive(self, number: int) -> None:
        self.upstreams.arrive(number, "taco", self.now_ns)

    def probe(self, number: int, outcome: CallOutcome = CallOutcome.OK) -> None:
        """Begin this order as a probe, and end it."""
        self.arrive(number)
        start = self.upstreams.next(self.now_ns)
        assert start is not None and start.probe
        self.upstreams.ended(number, self.now_ns + S, outcome)
        order = Order(number, order_id="o", key="taco", name="t", size=0)
        conf = SimpleNamespace(worker_enable_remote_control=True)
        order.request = SimpleNamespace(app=SimpleNamespace(conf=conf, control=self))
        self.recoveries.probed(order)

    def breaker(self) -> str:
        (look,) = self.upstreams.look()
        return look.breaker


def test_when_the_probes_of_one_have_closed_its_breaker_the_others_close_theirs() -> None:
    other = Worker([])
    one = Worker([other])
    one.arrive(99)
    one.now_ns += 6 * S
    one.upstreams.next(one.now_ns)
    one.upstreams.ended(99, one.now_ns, CallOutcome.OK)
    one.probe(100)
    assert (one.said, one.breaker(), other.breaker()) == ([], "half-open", "open")
    one.probe(101)
    assert one.said == [{"key": "taco"}]
    assert (one.breaker(), other.breaker()) == ("closed", "closed")
    other.arrive(200)
    start = other.upstreams.next(other.now_ns)
    assert start is not None and not start.probe


def test_what_is_open_by_hand_stays_open() -> None:
    worker = Worker([])
    worker.upstreams.open("taco", worker.now_ns)
    worker.recoveries.command(None, key="taco")
    do_all(worker.posted)
    assert worker.breaker() == "forced-open"


@pytest.mark.parametrize("said", [{}, {"key": 7}, {"key": "unknown"}])
def test_a_word_about_nobody_changes_nothing(said: dict[str, Any]) -> None:
    worker = Worker([])
    worker.recoveries.command(None, **said)
    do_all(worker.posted)
    assert worker.breaker() == "open"
