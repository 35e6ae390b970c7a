"""A message is acknowledged when it is done, or when the broker has confirmed its copy; else never."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from kombu import Queue
from tests.worker.test_delivery import Message

from greenlane._native import Upstreams
from greenlane_work.headers import Death
from greenlane_work.limits import CallOutcome, UpstreamRule
from greenlane_work.order import Ended, Leaving, Order, Parked, Received, Run, Running
from greenlane_work.settings import WorkSettings
from greenlane_work.worker.delivery import Delivery
from greenlane_work.worker.flow import OrderFlow
from greenlane_work.worker.lifecycle import Burial, Event, Recount, Removal, RunEnd, Success, WorkerEnd
from greenlane_work.worker.queues import Broker, Queues
from greenlane_work.worker.threads import ThreadOwner


@dataclass
class Post:
    """A publisher that keeps its letters: what would be confirmed, and when, is the test's."""

    letters: list[Any] = field(default_factory=list)
    waiting: int = 0

    def publish(self, letter: Any) -> None:
        self.letters.append(letter)


class Request:
    """Celery's, as far as it is looked at."""

    id = "id"
    acknowledged = False
    request_dict: Mapping[str, object] = {}

    def send_event(self, *_arguments: object, **_fields: object) -> None:
        pass


class Hanging(Request):
    """Its result backend hangs until the test lets it go on."""

    args, kwargs, store_errors, _context = (), {}, True, None

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.task = self.backend = self

    def mark_as_failure(self, *_arguments: object, **_options: object) -> None:
        self.begun.set()
        assert self.go.wait(20)

    def on_failure(self, *_arguments: object) -> None:
        pass


class Desk:
    """A flow that runs nothing, and the letters that it sends."""

    def __init__(self) -> None:
        self.owner = ThreadOwner()
        settings = WorkSettings()
        nobody: Any = None
        self.flow = OrderFlow(
            settings, self.owner, key_of=None, orders_of={}, upstreams=Upstreams(2, UpstreamRule()),
            make_runner=lambda _serve: nobody, jobs=nobody,
        )  # fmt: skip
        self.flow.parked.open = False
        self.line, self.totals = self.flow.line, self.flow.totals
        self.post = Post()
        publisher: Any = self.post
        self.flow.effects.queues = Queues(
            publisher, return_s=5, broker=Broker.RABBITMQ, queue_of=lambda _message: "orders"
        )
        self.numbers = 0

    def arrive(self, order: Order) -> None:
        """It is received."""
        if not self.flow.effects.memory.waits(order):
            self.flow._admit(order)

    def order(self, *, redelivered: bool = False) -> Order:
        """One delivery of the same order."""
        self.numbers += 1
        made = Order(self.numbers, id="a", key="k", name="t", size=0)
        made.request = Request()
        made.delivery = Delivery(Message(), self.line)
        made.redelivered = redelivered
        made.received_ns = time.monotonic_ns()
        made.came = ("a", made.deliveries, made.returns)
        return made

    def confirm(self, published: bool = True) -> None:
        """Let the broker say so of the oldest letter."""
        self.post.letters.pop(0).done(published)
        self.owner.run()


DEAD = Burial("attempts", "failed")
BY_A_COPY: Mapping[str, Event] = {"dead": DEAD, "returned": Removal("no room"), "counted": Recount()}


@pytest.mark.parametrize("way", BY_A_COPY)
def test_the_original_is_acknowledged_once_the_copy_is_confirmed_and_not_before(way: str) -> None:
    desk = Desk()
    order = desk.order()
    desk.flow.apply(order, BY_A_COPY[way])
    assert (type(order.state), order.delivery.message.said) == (Leaving, [])
    (letter,) = desk.post.letters
    assert letter.queue.name == {"dead": "orders.dead", "returned": "orders.later.5s", "counted": "orders"}[way]
    assert isinstance(letter.queue, Queue)
    assert letter.queue.durable
    desk.confirm()
    assert (type(order.state), order.delivery.message.said) == (Ended, ["ack"])


@pytest.mark.parametrize("way", BY_A_COPY)
def test_what_could_not_be_published_stays_unacknowledged(way: str) -> None:
    desk = Desk()
    order = desk.order()
    desk.flow.apply(order, BY_A_COPY[way])
    desk.confirm(published=False)
    assert order.delivery.message.said == []


def test_a_letter_is_not_published_any_more_when_its_connection_is_gone() -> None:
    desk = Desk()
    desk.flow.apply(desk.order(), DEAD)
    (letter,) = desk.post.letters
    assert letter.still()
    desk.line.lost()
    assert not letter.still()


def test_the_acknowledgement_is_the_owners_whoever_hears_of_the_confirmation() -> None:
    desk = Desk()
    order = desk.order()
    desk.flow.apply(order, DEAD)
    desk.post.letters.pop().done(True)  # on the publisher's thread
    assert order.delivery.message.said == []
    desk.owner.run()
    assert order.delivery.message.said == ["ack"]


def test_what_was_done_here_is_acknowledged_when_it_comes_again_and_not_run() -> None:
    desk = Desk()
    first = desk.order()
    first.state = Running(Run(first))
    desk.line.lost()
    desk.flow.apply(first, RunEnd(Success("1", 0.1), CallOutcome.OK))
    assert first.delivery.message.said == []  # nobody heard it
    again = desk.order(redelivered=True)
    desk.arrive(again)
    assert (again.delivery.message.said, desk.totals.acked_again) == (["ack"], 1)
    # Published a second time, by any publisher: that is no second delivery of the same message.
    published_twice = desk.order()
    desk.arrive(published_twice)
    assert isinstance(published_twice.state, Parked)


def test_a_message_whose_copy_was_confirmed_is_acknowledged_when_it_comes_again_and_the_copy_counts() -> None:
    desk = Desk()
    desk.flow.apply(desk.order(), Recount())
    desk.line.lost()  # before the acknowledgement is heard
    desk.confirm()
    again = desk.order(redelivered=True)
    desk.arrive(again)
    assert again.delivery.message.said == ["ack"]
    copy = desk.order(redelivered=True)
    copy.came = ("a", 1, 0)
    desk.arrive(copy)
    assert copy.delivery.message.said == []


def test_a_copy_does_not_begin_before_the_acknowledgement_of_its_original_is_sent() -> None:
    desk = Desk()
    original, copy = desk.order(), desk.order()
    copy.came = ("a", 1, 0)
    sent: list[list[str]] = []

    @contextlib.contextmanager
    def together() -> Iterator[None]:
        yield
        sent.append([*original.delivery.message.said])

    desk.owner.together = together
    desk.flow.apply(original, Recount())
    desk.arrive(copy)  # held back
    desk.confirm()
    assert (sent, type(copy.state)) == ([["ack"]], Received)
    desk.owner.run()
    assert isinstance(copy.state, Parked)


def test_a_copy_that_the_broker_has_back_by_then_is_not_taken_over() -> None:
    desk = Desk()
    desk.flow.apply(desk.order(), Recount())
    copy = desk.order()
    desk.arrive(copy)  # held back
    desk.confirm()
    desk.line.lost()
    desk.owner.run()
    assert len(desk.flow.parked) == 0


def test_a_dead_letter_of_an_order_past_its_deadline_is_no_copy_that_counts() -> None:
    desk = Desk()
    desk.flow.apply(desk.order(), Burial("deadline", "too late"))
    desk.confirm()
    sent_again = desk.order(redelivered=True)
    sent_again.deadline_at = 1.0
    assert not desk.flow.effects.memory.repeats(sent_again)


def test_a_letter_that_is_written_once_more_says_what_was_tried() -> None:
    desk = Desk()
    order = desk.order()
    order.note("failed", "the merchant said 500")
    desk.flow.apply(order, DEAD)
    desk.confirm(published=False)  # the broker died, and has only the first message
    desk.arrive(desk.order(redelivered=True))
    death = Death.of(desk.post.letters[0].headers)
    assert death is not None
    assert [tried.reason for tried in death.history] == ["the merchant said 500"]


def test_an_order_waits_while_its_copy_is_on_its_way_and_comes_in_then() -> None:
    desk = Desk()
    desk.flow.apply(desk.order(), Removal("no room"))
    second = desk.order()
    desk.arrive(second)
    assert len(desk.flow.parked) == 0
    desk.confirm()
    desk.owner.run()
    assert list(desk.flow.parked) == [second]


def test_what_was_not_begun_goes_back_to_its_queue_with_all_its_deliveries() -> None:
    desk = Desk()
    order, copy = desk.order(), desk.order()
    desk.arrive(order)
    desk.arrive(copy)
    desk.flow.apply(order, WorkerEnd())
    assert [each.delivery.message.said for each in (order, copy)] == [["requeue"], ["requeue"]]


@pytest.mark.parametrize(("call", "counted"), [(CallOutcome.OK, "ok"), (CallOutcome.FAILED, "failed")])
def test_the_upstreams_rules_learn_how_a_call_ended(call: CallOutcome, counted: str) -> None:
    desk = Desk()
    order = desk.order()
    desk.arrive(order)
    desk.flow.parked.open = True
    (begins,) = desk.flow.parked.turn().begins
    assert begins.order is order
    order.state = Running(Run(order))
    desk.flow.apply(order, RunEnd(Success("1", 0.1), call))
    look = desk.flow.parked.upstreams.look_at("k")
    assert look is not None and (look.running, getattr(look, counted)) == (0, 1)


def test_what_happens_to_an_order_that_has_left_has_no_effect() -> None:
    desk = Desk()
    order = desk.order()
    order.state = Running(Run(order))
    for _ in range(2):
        desk.flow.apply(order, RunEnd(Success("1", 0.1), CallOutcome.OK))
    assert (order.delivery.message.said, desk.totals.done) == (["ack"], 1)


def test_a_result_that_cannot_be_written_keeps_no_dead_letter_back() -> None:
    desk = Desk()
    hanging, later = desk.order(), desk.order()
    hanging.request, later.request = Hanging(), Hanging()
    later.identity = ("t", "later", 0, 0)
    later.request.go.set()
    for order in (hanging, later):
        desk.flow.apply(order, Burial("deadline", "too late", ValueError()))
    assert hanging.request.begun.wait(20) and later.request.begun.wait(20)
    while not desk.post.letters:
        desk.owner.wait(1)
    assert [letter.message for letter in desk.post.letters] == [later.delivery.message]
    desk.confirm()
    # Its time is over: what it waits for may never come.
    desk.flow.effects.stop_waiting()
    assert [letter.message for letter in desk.post.letters] == [hanging.delivery.message]
    desk.confirm()
    hanging.request.go.set()
    desk.owner.wait(1)
    assert [order.delivery.message.said for order in (hanging, later)] == [["ack"], ["ack"]]
    assert desk.post.letters == []
    desk.flow.effects.results.stop()
