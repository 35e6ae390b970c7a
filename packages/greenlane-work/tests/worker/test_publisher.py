"""Copies go to RabbitMQ many at a time, and each is answered for."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterator
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from kombu import Connection, Queue
from tests.worker.relay import Relay
from tests.worker.site import eventually

from greenlane_work.worker.publisher import Letter, Publisher
from greenlane_work.worker.queues import Broker, Queues

pytestmark = [pytest.mark.system]


class Post:
    """A publisher, and the answers to its letters."""

    def __init__(self, broker: str) -> None:
        self.connections: list[Any] = []
        self.publisher = Publisher(self._connect, confirms=True)
        self.done: list[tuple[str, bool]] = []

        self._broker = broker

    def _connect(self) -> Any:
        self.connections.append(Connection(self._broker))
        return self.connections[-1]

    def publish(self, queue: Queue, number: int = 0) -> Letter:
        """Publish one letter; its body is its number."""
        message = SimpleNamespace(
            headers={"spare": "said"}, properties={}, body=b"%d" % number, content_type=None, content_encoding=None
        )
        letter = Letter(message, queue, {}, lambda: True, lambda went: self.done.append((queue.name, went)), ("spare",))
        self.publisher.publish(letter)
        return letter


@pytest.fixture
def post(rabbitmq_url: str) -> Iterator[Post]:
    made = Post(rabbitmq_url)
    yield made
    made.publisher.stop()


def test_of_letters_that_go_together_only_those_are_done_that_the_broker_took(
    post: Post, rabbitmq_url: str, request: pytest.FixtureRequest
) -> None:
    full = Queue(
        f"full-{request.node.name}", durable=True, queue_arguments={"x-max-length": 5, "x-overflow": "reject-publish"}
    )
    wide = Queue(f"wide-{request.node.name}", durable=True)
    letters = [post.publish(queue) for _ in range(100) for queue in (full, wide)]
    eventually(lambda: len(post.done) == 105)
    eventually(lambda: sum(each.failures for each in letters) >= 95)
    assert Counter(post.done) == {(wide.name, True): 100, (full.name, True): 5}
    with Connection(rabbitmq_url) as connection:
        channel: Any = connection.channel()
        left = {queue.name: channel.queue_declare(queue.name, passive=True).message_count for queue in (full, wide)}
    assert left == {full.name: 5, wide.name: 100}
    post.publisher.stop()
    eventually(lambda: Counter(post.done)[full.name, False] == 95)


def test_letters_to_a_queue_that_was_deleted_meanwhile_are_published_again_and_no_others(
    post: Post, rabbitmq_url: str, request: pytest.FixtureRequest
) -> None:
    gone, there = (Queue(f"{name}-{request.node.name}", durable=True) for name in ("gone", "there"))
    post.publish(gone)
    eventually(lambda: post.done == [(gone.name, True)])
    with Connection(rabbitmq_url) as connection:
        channel: Any = connection.channel()
        channel.queue_delete(gone.name)
        for number in range(50):
            post.publish(gone, number)
            post.publish(there, number)
        eventually(lambda: len(post.done) == 101)
        for queue in (gone, there):
            found = [channel.basic_get(queue.name, no_ack=True) for _ in range(51)]
            assert sorted(int(message.body) for message in found if message) == list(range(50))


@pytest.mark.slow
def test_letters_that_are_refused_again_and_again_leave_no_channels_open(
    post: Post, request: pytest.FixtureRequest
) -> None:
    arguments = {"x-max-length": 0, "x-overflow": "reject-publish"}
    full = Queue(f"none-{request.node.name}", durable=True, queue_arguments=arguments)
    letters = [post.publish(full) for _ in range(20)]
    eventually(lambda: sum(each.failures for each in letters) >= 40)
    (connection,) = post.connections
    # The connection's own, and the one that letters go by; one more while the queue is declared.
    assert len(connection.connection.channels) <= 3


@pytest.mark.slow
def test_a_broker_that_is_away_for_long_costs_a_letter_nothing(
    rabbitmq_url: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    port = int(rabbitmq_url.rpartition(":")[2].rstrip("/"))
    queue = Queue(f"away-{request.node.name}", durable=True)
    with Relay(port) as relay:
        relay.cut()
        post = Post(rabbitmq_url.replace(str(port), str(relay.port)))
        letter = post.publish(queue)
        eventually(lambda: relay.refused >= 4)
        relay.mend()
        eventually(lambda: post.done == [(queue.name, True)])
        post.publisher.stop()
    with Connection(rabbitmq_url) as connection:
        channel: Any = connection.channel()
        assert channel.basic_get(queue.name, no_ack=True).headers["spare"] == "said"
    assert letter.failures == 0
    assert caplog.text.count("cannot be handed to") == 1


def test_of_visits_that_wait_only_the_newest_of_each_name_is_made(post: Post) -> None:
    came, go, made = Event(), Event(), list[str]()

    def holds(_connection: Any) -> None:
        came.set()
        go.wait(20)

    post.publisher.visit("first", holds)
    assert came.wait(20)
    for name, what in (("one", "older"), ("other", "other"), ("one", "newer")):
        post.publisher.visit(name, functools.partial(lambda what, _connection: made.append(what), what))
    go.set()
    eventually(lambda: made == ["newer", "other"])


def test_an_orders_own_queue_that_was_deleted_is_left_to_those_who_know_its_arguments(
    post: Post, rabbitmq_url: str, request: pytest.FixtureRequest
) -> None:
    queues = Queues(post.publisher, return_s=5, broker=Broker.RABBITMQ, queue_of=lambda _message: "")
    own = queues.own(f"own-{request.node.name}")
    letter = post.publish(own)
    eventually(lambda: letter.failures > 0 or bool(post.done))
    with Connection(rabbitmq_url) as connection:
        Queue(own.name, durable=True, max_priority=9)(connection.channel()).queue_declare()
    eventually(lambda: post.done == [(own.name, True)])
