"""How many orders wait on both sides, as the broker counts them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from greenlane.errors import DiversionError
from greenlane_work.broker import connected, declared

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
    with connected(broker, "count waiting orders", DiversionError, _TIMEOUT_S) as connection:
        return [_depth(connection, queue) for queue in queues]


def _depth(connection: Any, queue: str) -> Depth:
    is_amqp = connection.transport.driver_type == "amqp"
    found = declared(connection, queue)
    if found is None:
        return Depth(queue, None if is_amqp else 0, None)
    ready, consumers = found
    return Depth(queue, ready, consumers if is_amqp else None)
