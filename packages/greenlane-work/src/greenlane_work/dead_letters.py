"""Looking at the dead letters of a queue, and sending them again: by kombu, each confirmed before it is taken away.

Looking takes the letters out and puts them back, so a second look at that moment sees none. A letter that is sent
again and not yet taken away when the connection breaks is there twice; the store lets only one of the two be called.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from greenlane.errors import DeadLettersError
from greenlane_work.broker import connected, declared
from greenlane_work.headers import ORDER, Death, dead_queue, revived

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
    with connected(broker, "look at dead letters", DeadLettersError, _TIMEOUT_S) as connection:
        # Closing the channel puts back what was taken out and not acknowledged.
        with connection.channel() as channel:
            return [letter for _, letter in _all(connection, channel, queue, most)]


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
    with connected(broker, "send dead letters again", DeadLettersError, _TIMEOUT_S) as connection:
        with connection.channel() as channel:
            # All first: what is sent again may die at once, and come back behind the others.
            for message, letter in list(_all(connection, channel, queue, most)):
                if not chosen(letter):
                    continue
                back = letter.death.queue if letter.death is not None else queue
                if not _exists(connection, back):
                    raise _no_queue(back)
                _publish(channel, message, back)
                message.ack()
                sent.append(letter)
    return sent


def _all(connection: Any, channel: Any, queue: str, most: int) -> Iterator[tuple[Any, DeadLetter]]:
    name = dead_queue(queue)
    if not _exists(connection, name):
        if not _exists(connection, queue):
            raise _no_queue(queue)
        return  # made for the first letter
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


def _exists(connection: Any, queue: str) -> bool:
    """Whether a queue is there, where a broker knows the difference between that and an empty one."""
    return connection.transport.driver_type != "amqp" or declared(connection, queue) is not None


def _no_queue(queue: str) -> DeadLettersError:
    hint = "name the queue that the orders came to; its dead letters lie in QUEUE.dead"
    return DeadLettersError("find a queue", name="queue", value=queue, rule="a queue that is there", hint=hint)
