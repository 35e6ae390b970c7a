"""How the broker is told what happened to a message, and what is said of a connection that is gone."""

from __future__ import annotations

import pytest

from greenlane_work.worker.delivery import Delivery, Line


class Message:
    """A message that notes what is said of it; as kombu's, it can be told once."""

    channel: object = "some"

    def __init__(self, error: Exception | None = None) -> None:
        self.acknowledged = False
        self.said: list[str] = []
        self._error = error

    def ack(self) -> None:
        self._say("ack")

    def requeue(self) -> None:
        self._say("requeue")

    def _say(self, word: str) -> None:
        if self._error is not None:
            raise self._error
        self.acknowledged = True
        self.said.append(word)


def test_a_message_is_told_once() -> None:
    line, message = Line(), Message()
    delivery = Delivery(message, line)
    assert delivery.ack()
    assert not delivery.requeue()
    assert (message.said, line.acked, line.requeued) == (["ack"], 1, 0)


def test_after_the_connection_nothing_is_said_and_one_line_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    line = Line()
    messages = [Message() for _ in range(5)]
    deliveries = [Delivery(message, line) for message in messages]
    line.lost()
    assert not any(delivery.ack() for delivery in deliveries)
    assert [message.said for message in messages] == [[]] * 5
    assert line.stale == 5
    assert len(caplog.records) == 1


def test_a_connection_that_breaks_at_the_word_counts_as_gone() -> None:
    line = Line()
    assert not Delivery(Message(BrokenPipeError()), line).ack()
    assert (line.acked, line.stale) == (0, 1)


def test_what_celery_acknowledged_itself_is_left_alone() -> None:
    line, message = Line(), Message()
    message.acknowledged = True
    assert not Delivery(message, line).ack()
    assert (message.said, line.stale) == ([], 0)


def test_a_message_that_redis_has_given_to_another_worker_is_told_nothing() -> None:
    line, message = Line(), Message()
    delivery = Delivery(message, line)
    message.channel = None
    assert not delivery.ack()
    assert (message.said, line.stale) == ([], 1)
