"""The Celery application of backend and workers: queues, settings that lose nothing, publishing an order."""

from __future__ import annotations

import time
from typing import Any, Final

from celery import Celery
from kombu import Exchange, Queue

from .surroundings import Surroundings

TASK: Final = "pos.send_order"
#: What stock workers take orders from; the other one is there to be diverted to.
QUEUE: Final = "orders"
DIVERTED: Final = "greenlane"
#: Where orders go that are given up, with what is known of them.
DEAD: Final = "orders.dead"
ORDER_HEADER: Final = "greenlane-order"
# Of type topic: with quorum queues Celery leaves delays to the broker, which goes through no direct exchange.
_EXCHANGE: Final = Exchange("orders", "topic", durable=True)

#: Every one of these is off, or set otherwise, unless somebody sets it.
SAFE: Final[dict[str, Any]] = {
    # A worker that dies gives back what it has.
    "task_acks_late": True,
    "task_reject_on_worker_lost": True,
    # What fails is dead-lettered, not thrown away.
    "task_acks_on_failure_or_timeout": False,
    # A publish that the broker did not take is an error of the publisher.
    "broker_transport_options": {"confirm_publish": True},
    # As many orders as there are slots: each further one would wait behind a busy worker.
    "worker_prefetch_multiplier": 1,
    "task_ignore_result": True,
    "task_serializer": "json",
    "accept_content": ["json"],
    "task_default_delivery_mode": "persistent",
    "broker_connection_retry_on_startup": True,
    "worker_hijack_root_logger": False,
    "worker_enable_remote_control": False,
    "worker_cancel_long_running_tasks_on_connection_loss": False,
}


def queues(kind: str) -> list[Queue]:
    """Every queue, dead letters' last."""
    arguments = {"x-queue-type": kind, "x-dead-letter-exchange": "", "x-dead-letter-routing-key": DEAD}
    live = [Queue(name, _EXCHANGE, name, queue_arguments=arguments) for name in (QUEUE, DIVERTED)]
    # What is given up is kept twice as safe; Greenlane's worker declares it in the same way.
    return [*live, Queue(DEAD, Exchange(""), DEAD, queue_arguments={"x-queue-type": "quorum"})]


def application(around: Surroundings, **settings: Any) -> Celery:
    """Celery's application with the safe settings; `settings` are added."""
    app = Celery("pos", broker=around.broker, set_as_current=False)
    live = [queue for queue in queues(around.queue_kind) if queue.name != DEAD]
    app.conf.update(
        SAFE, task_queues=live, task_default_queue=QUEUE, task_default_exchange=_EXCHANGE.name,
        task_default_routing_key=QUEUE, **settings,
    )  # fmt: skip
    return app


def declare(app: Celery, kind: str) -> None:
    """Makes exchange and queues at the broker: what is published before any worker has come is kept."""
    with app.connection_for_write() as connection:
        for queue in queues(kind):
            queue(connection.default_channel).declare()


def publish(app: Celery, order: str, merchant: str, *, within_s: float = 0.0, **options: Any) -> None:
    """Gives an order to the broker, and comes back when the broker has it. Blocks.

    Args:
        app: of `application`; may be called from several threads.
        order: its id, which is also the task's.
        merchant: whom it goes to.
        within_s: it is not sent later than that, but refunded; 0 = it never is too late.
        options: as `send_task`.

    Raises:
        OperationalError: the broker cannot be reached, or did not confirm.
    """
    given: dict[str, Any] = {"order": order, "merchant": merchant}
    if within_s:
        given["until"] = time.time() + within_s
    app.send_task(TASK, kwargs=given, task_id=order, headers={ORDER_HEADER: order}, **options)
