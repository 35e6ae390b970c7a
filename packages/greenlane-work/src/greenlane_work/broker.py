"""A broker as commands ask it, by kombu: connected to, or refused in one line; queues looked at and never made."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from greenlane.errors import GreenlaneError
from greenlane_work.drivers import without_password

__all__ = ["connected", "declared"]


@contextlib.contextmanager
def connected(broker: str, attempted: str, refusal: type[GreenlaneError], timeout_s: float) -> Iterator[Any]:
    """A kombu connection, with publisher confirms where there are any.

    Args:
        broker: as Celery's `broker_url`.
        attempted: what the command does, for the message.
        refusal: raised for every error in the block, except our own errors.
        timeout_s: to connect.
    """
    kombu: Any = importlib.import_module("kombu")
    options = {"confirm_publish": True} if broker.startswith(("amqp", "pyamqp")) else {}
    try:
        with kombu.Connection(broker, connect_timeout=timeout_s, transport_options=options) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=timeout_s)
            yield connection
    except GreenlaneError:
        raise
    except Exception as error:  # what a transport raises has no common base
        # Of a URL that cannot be read, the error quotes what it took for a port: it may be of the password.
        said = "it cannot be read" if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        hint = "write it as Celery's broker_url, and see whether it runs"
        raise refusal(
            attempted, name="broker", value=without_password(broker), rule=f"a broker that answers ({said})", hint=hint
        ) from error


def declared(connection: Any, queue: str) -> tuple[int, int] | None:
    """Orders that wait in a queue, and consumers; None = there is no such queue."""
    # A channel of its own: the broker closes it when there is none.
    with connection.channel() as channel:
        try:
            _, ready, consumers = channel.queue_declare(queue=queue, passive=True)
        except connection.channel_errors:
            return None
    return ready, consumers
