"""Orders with a time before which they must not begin are ours to keep; what waits for a rate limit is Celery's."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from greenlane_work.worker.consumer import Strategies


class Consumer:
    """As far as a strategy looks at it."""

    hostname = "one"

    def __init__(self) -> None:
        self.grown = 0
        self.timed: list[tuple[Any, ...]] = []
        self.qos = SimpleNamespace(increment_eventually=self._grow)
        self.timer = SimpleNamespace(call_at=lambda *arguments, **_options: self.timed.append(arguments) or "entry")

    def _grow(self) -> None:
        self.grown += 1

    def apply_eta_task(self, request: object) -> None:
        raise AssertionError("that is for Celery's timer")

    def limit_post_eta(self, *arguments: object) -> None:
        raise AssertionError("that is for Celery's timer")


def test_an_order_with_an_eta_is_received_with_it_and_the_prefetch_count_stays() -> None:
    consumer = Consumer()
    received: list[tuple[object, int]] = []
    face = Strategies(consumer, lambda request, at_ns: received.append((request, at_ns)))
    face.qos.increment_eventually()
    assert face.timer.call_at(12.5, face.apply_eta_task, ("request",), priority=6) is None
    assert received == [("request", 12_500_000_000)]
    assert (consumer.grown, consumer.timed) == (0, [])
    assert face.hostname == "one"


def test_a_task_with_a_rate_limit_waits_in_celerys_timer_and_makes_room_for_itself() -> None:
    consumer = Consumer()
    face = Strategies(consumer, lambda request, at_ns: None)
    face.qos.increment_eventually()
    assert face.timer.call_at(12.5, face.limit_post_eta, ("request", "bucket", 1), priority=6) == "entry"
    assert consumer.grown == 1
    assert consumer.timed == [(12.5, consumer.limit_post_eta, ("request", "bucket", 1))]
