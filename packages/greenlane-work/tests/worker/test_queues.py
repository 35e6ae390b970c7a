"""The queues beside a queue of orders, as they are declared."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from greenlane_work.worker.publisher import Publisher
from greenlane_work.worker.queues import Broker, Queues, major_version


def queues(broker: Broker, version: int = 0) -> Queues:
    def nobody() -> None:
        raise AssertionError("nothing is published here")

    return Queues(
        Publisher(nobody, confirms=True), return_s=5, broker=broker, queue_of=lambda _message: "orders", version=version
    )


@pytest.mark.parametrize(("version", "limit"), [(0, None), (3, None), (4, -1), (5, -1)])
def test_dead_letters_may_be_looked_at_without_end(version: int, limit: int | None) -> None:
    dead = queues(Broker.RABBITMQ, version).dead("orders")
    assert dead.name == "orders.dead"
    assert dead.queue_arguments["x-queue-type"] == "quorum"
    # 3.x would drop a letter the first time that it is put back.
    assert dead.queue_arguments.get("x-delivery-limit") == limit


def test_what_is_returned_again_and_again_waits_longer_up_to_a_bound() -> None:
    made = queues(Broker.RABBITMQ, 4)
    later = [made.later("orders", made.wait_s(returns)) for returns in range(1, 8)]
    assert [each.name for each in later] == [f"orders.later.{s}s" for s in (5, 10, 20, 40, 80, 80, 80)]
    assert later[0].queue_arguments["x-message-ttl"] == 5000
    assert later[0].queue_arguments["x-dead-letter-routing-key"] == "orders"
    assert later[0].queue_arguments["x-dead-letter-strategy"] == "at-least-once"


def test_an_order_that_must_wait_for_long_waits_at_the_broker_in_few_steps_and_on_redis_in_one() -> None:
    left_s, steps = 2 * 86_400.0, 0
    while left_s > 300:
        wait_s = queues(Broker.RABBITMQ).wait_s(1, left_s)
        assert wait_s <= left_s
        left_s, steps = left_s - wait_s, steps + 1
    assert steps <= 10
    assert queues(Broker.REDIS).wait_s(1, 2 * 86_400.0) == 2 * 86_400.0
    # Its next returns are no reason to wait beyond its time.
    assert queues(Broker.RABBITMQ).wait_s(9, 700.0) == 640


def test_a_broker_without_such_queues_has_the_order_back_at_once() -> None:
    assert queues(Broker.OTHER).later("orders", 20).name == "orders"
    assert queues(Broker.REDIS).dead("orders").queue_arguments == {}


@pytest.mark.parametrize(("told", "first"), [("3.10.8", 3), (b"4.1.0-rc.1", 4), ("", 0), ("unknown", 0)])
def test_the_version_is_what_the_broker_tells(told: object, first: int) -> None:
    assert major_version(SimpleNamespace(connection=SimpleNamespace(server_properties={"version": told}))) == first


def test_a_broker_that_tells_no_version_has_none() -> None:
    assert major_version(SimpleNamespace(connection=None)) == 0
