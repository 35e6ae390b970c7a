"""Orders with a time before which they must not begin are ours to keep, and those of a rate limit."""

from __future__ import annotations

import time
from types import SimpleNamespace

from kombu.utils.limits import TokenBucket

from greenlane_work.worker.consumer import Strategies


class Consumer:
    """As far as a strategy looks at it."""

    hostname = "one"

    def __init__(self) -> None:
        self.qos = SimpleNamespace(increment_eventually=self._never)
        self.timer = SimpleNamespace(call_at=self._never)

    def _never(self, *_arguments: object, **_options: object) -> None:
        raise AssertionError("Celery's own timer and prefetch count have no part in it")

    apply_eta_task = limit_post_eta = _never


class Face:
    """What a strategy sees, and the result."""

    def __init__(self) -> None:
        self.received: list[tuple[object, int]] = []
        self.room = True
        self.strategies = Strategies(Consumer(), self._receive)

    def _receive(self, request: object, at_ns: int) -> bool:
        self.received.append((request, at_ns))
        return self.room


def test_an_order_with_an_eta_is_received_with_it_and_the_prefetch_count_stays() -> None:
    face = Face()
    seen = face.strategies
    seen.qos.increment_eventually()
    seen.timer.call_at(12.5, seen.apply_eta_task, ("request",), priority=6)
    assert face.received == [("request", 12_500_000_000)]
    assert seen.hostname == "one"


def test_orders_of_a_rate_limit_get_its_turns_one_after_the_other() -> None:
    face, bucket = Face(), TokenBucket(10)
    for number in range(4):
        face.strategies._limit_task(number, bucket, 1)
    at = [at_ns for _, at_ns in face.received]
    assert at[0] == 0
    assert [round((one - at[1]) / 1e6) for one in at[1:]] == [0, 100, 200]


def test_an_order_of_a_rate_limit_that_is_not_kept_leaves_its_turn_to_the_next() -> None:
    face, bucket = Face(), TokenBucket(10)
    face.strategies._limit_task("first", bucket, 1)
    face.room = False
    face.strategies._limit_task("returned", bucket, 1)
    face.room = True
    face.strategies._limit_task("second", bucket, 1)
    assert face.received[1][1] == face.received[2][1] > 0


def test_an_order_of_a_rate_limit_with_an_eta_does_not_begin_before_it() -> None:
    face = Face()
    eta_s = time.monotonic() + 60
    face.strategies.timer.call_at(eta_s, face.strategies.limit_post_eta, ("request", TokenBucket(10), 1), priority=6)
    assert face.received == [("request", int(eta_s * 1e9))]
