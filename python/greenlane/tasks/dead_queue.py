"""Looking at the dead letters of a queue, and sending them again: by kombu, each confirmed before it is taken away.

To look takes the letters out and puts them back, so whoever else looks at that moment sees none. A letter that is sent
again and not yet taken away when the connection breaks is there twice; the store lets only one of the two be called.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from greenlane.errors import DeadLettersError
from greenlane.tasks.dead_letters import ORDER, Death, dead_queue, revived
from greenlane.tasks.store.driver import without_password

__all__ = ["DeadLetter", "dead_letters", "send_again"]

_TIMEOUT_S: Final = 10.0
_KEPT: Final = ("correlation_id", "reply_to", "priority", "message_id", "type", "app_id")


@dataclass(frozen=True)
class DeadLetter:
    """One message in a dead-letter queue."""

    #: Its business id; "" = it has none.
    order: str
    #: The task's name; "" = it is no Celery message.
    task: str
    #: Why it is here; None = it does not say, or somebody else put it here.
    death: Death | None
    #: Its body, as published.
    body: bytes


def dead_letters(broker: str, queue: str, most: int) -> list[DeadLetter]:
    """Give the dead letters of a queue, oldest first; none is taken away. Raises DeadLettersError."""
    with _channel(broker, "look at dead letters") as channel:
        return [letter for _, letter in _all(channel, queue, most)]


def send_again(broker: str, queue: str, chosen: Callable[[DeadLetter], bool], most: int) -> list[DeadLetter]:
    """Publish the chosen letters to the queue that they came from, confirmed, then take them away; gives them.

    Args:
        broker: as Celery's `broker_url`.
        queue: whose dead letters; a letter that does not say where it came from goes here.
        chosen: asked for each.
        most: of all that are looked at.

    Raises:
        DeadLettersError: the broker cannot be reached, or a queue is not there. What was sent before that is sent.
    """
    sent = []
    with _channel(broker, "send dead letters again") as channel:
        # All first: what is sent again may die at once, and come back behind the others.
        for message, letter in list(_all(channel, queue, most)):
            if chosen(letter):
                _publish(channel, message, letter.death.queue if letter.death is not None else queue)
                message.ack()
                sent.append(letter)
    return sent


def _all(channel: Any, queue: str, most: int) -> Iterator[tuple[Any, DeadLetter]]:
    name = dead_queue(queue)
    _must_exist(channel, name)
    for _ in range(most):
        raw = channel.basic_get(name, no_ack=False)
        if raw is None:
            return
        message = channel.message_to_python(raw) if hasattr(channel, "message_to_python") else raw
        headers = message.headers or {}
        death = Death.of(headers)
        order = str(headers.get(ORDER) or (death.order if death is not None else ""))
        task = str(headers.get("task") or (death.task if death is not None else ""))
        body = message.body if isinstance(message.body, bytes) else str(message.body).encode()
        yield message, DeadLetter(order, task, death, body)


def _publish(channel: Any, message: Any, queue: str) -> None:
    kombu: Any = importlib.import_module("kombu")
    _must_exist(channel, queue)
    properties = message.properties or {}
    kombu.Producer(channel).publish(
        message.body,
        exchange="",
        routing_key=queue,
        headers=revived(message.headers or {}),
        content_type=message.content_type or "application/data",
        content_encoding=message.content_encoding or "binary",
        delivery_mode=2,
        **{name: properties[name] for name in _KEPT if properties.get(name) is not None},
    )


def _must_exist(channel: Any, queue: str) -> None:
    """Refuse a queue that is not there, where a broker knows the difference between that and an empty one."""
    if channel.connection.client.transport.driver_type != "amqp":
        return
    try:
        channel.queue_declare(queue=queue, passive=True)
    except channel.connection.client.channel_errors as error:
        hint = "name the queue that the orders came to; its dead letters lie in QUEUE.dead"
        rule = f"a queue that is there ({error})"
        raise DeadLettersError("find a queue", name="queue", value=queue, rule=rule, hint=hint) from error


@contextlib.contextmanager
def _channel(broker: str, attempted: str) -> Iterator[Any]:
    kombu: Any = importlib.import_module("kombu")
    options = {"confirm_publish": True} if broker.startswith(("amqp", "pyamqp")) else {}
    try:
        with kombu.Connection(broker, connect_timeout=_TIMEOUT_S, transport_options=options) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=_TIMEOUT_S)
            # Closing it puts back what was taken out and not acknowledged.
            with connection.channel() as channel:
                yield channel
    except DeadLettersError:
        raise
    except Exception as error:  # what a transport raises has no common base
        rule = f"a broker that answers ({type(error).__name__}: {error})"
        hint = "write it as Celery's broker_url, and see whether it runs"
        value = without_password(broker)
        raise DeadLettersError(attempted, name="broker", value=value, rule=rule, hint=hint) from error
