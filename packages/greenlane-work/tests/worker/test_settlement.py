"""A message is acknowledged when it is done, or when the broker has confirmed its copy; else never."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from kombu import Queue
from tests.worker.test_delivery import Message

from greenlane_work.headers import Death
from greenlane_work.order import Order, Stage
from greenlane_work.worker.delivery import Delivery, Line
from greenlane_work.worker.owner import Entry
from greenlane_work.worker.queues import Broker, Queues
from greenlane_work.worker.settlement import Settlement
from greenlane_work.worker.threads import ThreadOwner
from greenlane_work.worker.totals import Totals


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
    """A settlement, the letters that it sends, and what it lets in."""

    def __init__(self) -> None:
        self.line = Line()
        self.owner = ThreadOwner()
        self.totals = Totals()
        self.admitted: list[Order] = []
        self.alarms: list[Entry] = []
        own: Any = self
        self.settlement = Settlement(self.owner, own, self.totals, self.admitted.append, 600)
        self.post = Post()
        publisher: Any = self.post
        self.settlement.queues = Queues(
            publisher, return_s=5, broker=Broker.RABBITMQ, queue_of=lambda _message: "orders"
        )
        self.numbers = 0

    def at(self, _at_ns: int, call: Callable[[], object]) -> Entry:
        """The alarm: it rings when the test lets it."""
        self.alarms.append(Entry(call))
        return self.alarms[-1]

    def ring(self) -> None:
        """Whatever the time is: what is to be done at one is due."""
        alarms, self.alarms = self.alarms, []
        for entry in alarms:
            if entry.call is not None:
                entry.call()

    def order(self, *, redelivered: bool = False) -> Order:
        """One delivery of the same order."""
        self.numbers += 1
        made = Order(self.numbers, id="a", key="k", name="t", size=0)
        made.request = Request()
        made.delivery = Delivery(Message(), self.line)
        made.redelivered = redelivered
        made.came = ("a", made.deliveries, made.returns)
        return made

    def confirm(self, published: bool = True) -> None:
        """Let the broker say so of the oldest letter."""
        self.post.letters.pop(0).done(published)
        self.owner.run()


BY_A_COPY: Mapping[str, Callable[[Settlement, Order], None]] = {
    "dead": lambda settlement, order: settlement.bury(order, "attempts", "failed"),
    "returned": lambda settlement, order: settlement.give_back(order, "no room"),
    "counted": lambda settlement, order: settlement.count(order),
}


@pytest.mark.parametrize("way", BY_A_COPY)
def test_the_original_is_acknowledged_once_the_copy_is_confirmed_and_not_before(way: str) -> None:
    desk = Desk()
    order = desk.order()
    BY_A_COPY[way](desk.settlement, order)
    assert (order.stage, order.delivery.message.said) == (Stage.LEAVING, [])
    (letter,) = desk.post.letters
    assert letter.queue.name == {"dead": "orders.dead", "returned": "orders.later.5s", "counted": "orders"}[way]
    assert isinstance(letter.queue, Queue)
    assert letter.queue.durable
    desk.confirm()
    assert (order.stage, order.delivery.message.said) == (Stage.ENDED, ["ack"])


@pytest.mark.parametrize("way", BY_A_COPY)
def test_what_could_not_be_published_stays_unacknowledged(way: str) -> None:
    desk = Desk()
    order = desk.order()
    BY_A_COPY[way](desk.settlement, order)
    desk.confirm(published=False)
    assert order.delivery.message.said == []


def test_a_letter_is_not_published_any_more_when_its_connection_is_gone() -> None:
    desk = Desk()
    desk.settlement.bury(desk.order(), "attempts", "failed")
    (letter,) = desk.post.letters
    assert letter.still()
    desk.line.lost()
    assert not letter.still()


def test_the_acknowledgement_is_the_owners_whoever_hears_of_the_confirmation() -> None:
    desk = Desk()
    order = desk.order()
    desk.settlement.bury(order, "attempts", "failed")
    desk.post.letters.pop().done(True)  # on the publisher's thread
    assert order.delivery.message.said == []
    desk.owner.run()
    assert order.delivery.message.said == ["ack"]


def test_what_was_done_here_is_acknowledged_when_it_comes_again_and_not_run() -> None:
    desk = Desk()
    first = desk.order()
    desk.line.lost()
    desk.settlement.settle(first)
    assert first.delivery.message.said == []  # nobody heard it
    again = desk.order(redelivered=True)
    again.delivery = Delivery(Message(), desk.line)
    assert desk.settlement.done_here(again)
    assert (again.delivery.message.said, desk.totals.acked_again) == (["ack"], 1)
    # Published a second time, by any publisher: that is no second delivery of the same message.
    assert not desk.settlement.done_here(desk.order())


def test_a_message_whose_copy_was_confirmed_is_acknowledged_when_it_comes_again_and_the_copy_counts() -> None:
    desk = Desk()
    desk.settlement.count(desk.order())
    desk.line.lost()  # before the acknowledgement is heard
    desk.confirm()
    again = desk.order(redelivered=True)
    again.delivery = Delivery(Message(), desk.line)
    assert desk.settlement.done_here(again)
    assert again.delivery.message.said == ["ack"]
    copy = desk.order(redelivered=True)
    copy.came = ("a", 1, 0)
    assert not desk.settlement.done_here(copy)


def test_a_dead_letter_of_an_order_past_its_deadline_is_no_copy_that_counts() -> None:
    desk = Desk()
    desk.settlement.bury(desk.order(), "deadline", "too late")
    desk.confirm()
    sent_again = desk.order(redelivered=True)
    sent_again.deadline_at = 1.0
    assert not desk.settlement.done_here(sent_again)


def test_a_letter_that_is_written_once_more_says_what_was_tried() -> None:
    desk = Desk()
    order = desk.order()
    order.note("failed", "the merchant said 500")
    desk.settlement.bury(order, "attempts", "failed")
    desk.confirm(published=False)  # the broker died, and has only the first message
    assert desk.settlement.condemned(desk.order(redelivered=True))
    death = Death.of(desk.post.letters[0].headers)
    assert death is not None
    assert [tried.reason for tried in death.history] == ["the merchant said 500"]


def test_an_order_waits_while_its_copy_is_on_its_way_and_comes_in_then() -> None:
    desk = Desk()
    desk.settlement.give_back(desk.order(), "no room")
    second = desk.order()
    assert desk.settlement.waits(second)
    desk.confirm()
    assert desk.admitted == [second]
    assert not desk.settlement.waits(desk.order())


def test_what_was_not_begun_goes_back_to_its_queue_with_all_its_deliveries() -> None:
    desk = Desk()
    order, copy = desk.order(), desk.order()
    order.copies.append(copy)
    desk.settlement.requeue(order)
    assert [each.delivery.message.said for each in (order, copy)] == [["requeue"], ["requeue"]]


def test_a_result_that_cannot_be_written_keeps_no_dead_letter_back() -> None:
    desk = Desk()
    hanging, later = desk.order(), desk.order()
    hanging.request, later.request = Hanging(), Hanging()
    later.identity = ("t", "later", 0, 0)
    later.request.go.set()
    for order in (hanging, later):
        desk.settlement.bury(order, "deadline", "too late", ValueError())
    assert hanging.request.begun.wait(20) and later.request.begun.wait(20)
    while not desk.post.letters:
        desk.owner.wait(1)
    assert [letter.message for letter in desk.post.letters] == [later.delivery.message]
    desk.confirm()
    # Its time is over: what it waits for may never come.
    desk.ring()
    assert [letter.message for letter in desk.post.letters] == [hanging.delivery.message]
    desk.confirm()
    hanging.request.go.set()
    desk.owner.wait(1)
    assert [order.delivery.message.said for order in (hanging, later)] == [["ack"], ["ack"]]
    assert desk.post.letters == []
    desk.settlement.results.stop()
