"""Copies go to RabbitMQ many at a time, and each is answered for."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from kombu import Connection, Queue
from tests.worker.site import eventually

from greenlane_work.worker.publisher import Letter, Publisher

pytestmark = [pytest.mark.system]


def test_of_letters_that_go_together_only_those_are_done_that_the_broker_took(
    rabbitmq_url: str, request: pytest.FixtureRequest
) -> None:
    full = Queue(
        f"full-{request.node.name}", durable=True, queue_arguments={"x-max-length": 5, "x-overflow": "reject-publish"}
    )
    wide = Queue(f"wide-{request.node.name}", durable=True)
    publisher = Publisher(lambda: Connection(rabbitmq_url), confirms=True)
    done: list[tuple[str, bool]] = []

    def letter(queue: Queue) -> Letter:
        message = SimpleNamespace(headers={}, properties={}, body=b"{}", content_type=None, content_encoding=None)
        return Letter(message, queue, {}, lambda: True, lambda went: done.append((queue.name, went)))

    letters = [letter(queue) for _ in range(100) for queue in (full, wide)]
    for each in letters:
        publisher.publish(each)
    try:
        eventually(lambda: len(done) == 105)
        eventually(lambda: sum(each.failures for each in letters) >= 95)
        assert Counter(done) == {(wide.name, True): 100, (full.name, True): 5}
        with Connection(rabbitmq_url) as connection:
            channel: Any = connection.channel()
            left = {queue.name: channel.queue_declare(queue.name, passive=True).message_count for queue in (full, wide)}
        assert left == {full.name: 5, wide.name: 100}
    finally:
        publisher.stop()
    eventually(lambda: Counter(done)[full.name, False] == 95)
