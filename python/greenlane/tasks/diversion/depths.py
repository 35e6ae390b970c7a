"""How many orders wait on both sides, as the broker counts them."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from greenlane.errors import DiversionError
from greenlane.tasks.store.driver import without_password

__all__ = ["Depth", "depths"]

_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class Depth:
    """One queue."""

    queue: str
    #: Orders that wait at the broker, not those that a worker holds; None = there is no such queue (Redis knows of no
    #: queue that is empty: 0).
    ready: int | None
    #: None = the broker does not count them (Redis).
    consumers: int | None


def depths(broker: str, queues: Iterable[str]) -> list[Depth]:
    """Ask a broker, by kombu. Raises DiversionError; changes nothing, and makes no queue."""
    kombu: Any = importlib.import_module("kombu")

    try:
        with kombu.Connection(broker, connect_timeout=_TIMEOUT_S) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=_TIMEOUT_S)
            return [_depth(connection, queue) for queue in queues]
    except Exception as error:  # what a transport raises has no common base
        rule = f"a broker that answers ({type(error).__name__}: {error})"
        hint = "write it as Celery's broker_url, and see whether it runs"
        value = without_password(broker)
        raise DiversionError("count waiting orders", name="broker", value=value, rule=rule, hint=hint) from error


def _depth(connection: Any, queue: str) -> Depth:
    # A channel of its own: the broker closes it when there is no such queue.
    is_amqp = connection.transport.driver_type == "amqp"
    with connection.channel() as channel:
        try:
            _, ready, consumers = channel.queue_declare(queue=queue, passive=True)
        except connection.channel_errors:
            return Depth(queue, None if is_amqp else 0, None)
    return Depth(queue, ready, consumers if is_amqp else None)
