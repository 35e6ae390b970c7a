"""A key whose upstream said when to come again has no order begun until then."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import requests

from greenlane._native import Upstreams
from greenlane_work.limits import UpstreamRule
from greenlane_work.order import Order
from greenlane_work.worker.owner import do_all
from greenlane_work.worker.pauses import Pauses


class Hands:
    """An owner that does what was posted when the test says so, with a clock and an alarm of the test's."""

    def __init__(self) -> None:
        self.now_ns = 1
        self.posted: deque[Callable[[], object]] = deque()
        self.alarms: list[tuple[int, Callable[[], object]]] = []
        self.told: list[dict[str, object]] = []
        self.upstreams = Upstreams(4, UpstreamRule())
        own: Any = self
        self.pauses = Pauses(self.upstreams, own, own, keyed=True, clock_ns=lambda: self.now_ns)

    def post(self, call: Callable[[], object]) -> None:
        self.posted.append(call)

    def at(self, at_ns: int, call: Callable[[], object]) -> None:
        self.alarms.append((at_ns, call))

    def passes(self, seconds: float) -> None:
        """Let time pass, and the alarms ring."""
        self.now_ns += int(seconds * 1e9)
        for at_ns, call in self.alarms:
            if at_ns <= self.now_ns:
                call()

    def broadcast(self, _command: str, arguments: dict[str, object]) -> None:
        self.told.append(arguments)

    def refused(self, again: str) -> None:
        """The merchant taco says so to an order."""
        order = Order(1, id="a", key="taco", name="t", size=0)
        conf = SimpleNamespace(worker_enable_remote_control=True)
        order.request = SimpleNamespace(app=SimpleNamespace(conf=conf, control=self))
        response = requests.Response()
        response.status_code = 429
        response.headers["Retry-After"] = again
        self.pauses.refused(order, requests.HTTPError(response=response))
        do_all(self.posted)

    def begins(self, number: int) -> bool:
        """Whether an order of it may begin."""
        self.upstreams.arrive(number, "taco", self.now_ns)
        return self.upstreams.next(self.now_ns) is not None


@pytest.fixture
def hands() -> Hands:
    return Hands()


def test_its_orders_wait_for_their_time_and_the_other_workers_are_told_once(hands: Hands) -> None:
    assert hands.begins(1)
    hands.refused("1")
    hands.refused("1")
    assert [told["key"] for told in hands.told] == ["taco"]
    assert not hands.begins(2)
    hands.passes(1)
    assert hands.upstreams.next(hands.now_ns) is not None


def test_the_longest_word_counts(hands: Hands) -> None:
    hands.refused("1")
    hands.refused("60")
    hands.pauses.command(None, key="taco", seconds=2)
    do_all(hands.posted)
    assert [told["seconds"] for told in hands.told] == [1, 60]
    hands.passes(1)
    assert not hands.begins(1)


def test_a_breaker_that_was_opened_by_hand_meanwhile_stays_open(hands: Hands) -> None:
    hands.refused("1")
    hands.pauses.forget("taco")
    hands.passes(1)
    assert not hands.begins(1)


@pytest.mark.parametrize(
    "said", [{}, {"key": 1, "seconds": 2}, {"key": "taco", "seconds": "x"}, {"key": "taco", "seconds": -1}]
)
def test_a_command_that_says_nothing_sensible_pauses_nobody(hands: Hands, said: dict[str, object]) -> None:
    hands.pauses.command(None, **said)
    do_all(hands.posted)
    assert hands.begins(1)
