"""The queues beside a queue of orders: where returned ones wait, and where dead ones lie.

    QUEUE.later.5s      orders that had no room; the broker puts each back into QUEUE after its time
    QUEUE.dead          orders that are not run any more, with their history

On RabbitMQ both are quorum queues, and what has waited is put back at least once (3.10 or later). On Redis and other
brokers without that, a worker moves what waits back, one atomic step each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from kombu import Queue

from greenlane.hosts.celery.publisher import Letter, Publisher
from greenlane.tasks.dead_letters import dead_queue

__all__ = ["Queues"]

_log = logging.getLogger("greenlane.work")
#: An order that is returned again and again waits longer each time: so many doublings at most.
_DOUBLINGS: Final = 4


class Queues:
    """The queues of one consumer."""

    def __init__(self, publisher: Publisher, *, return_s: float, rabbitmq: bool, queue_of: Callable[[Any], str]) -> None:
        self._publisher = publisher
        self._return_s = return_s
        self._rabbitmq = rabbitmq
        self._queue_of = queue_of

    def at(self, queue_of: Callable[[Any], str]) -> Queues:
        """Give the same, for the next connection."""
        return Queues(self._publisher, return_s=self._return_s, rabbitmq=self._rabbitmq, queue_of=queue_of)

    @property
    def waiting(self) -> int:
        """Copies that the broker has not confirmed yet."""
        return self._publisher.waiting

    def stop(self) -> None:
        """Publish no more."""
        self._publisher.stop()

    def name(self, message: Any) -> str:
        """Give the queue that a message came from."""
        return self._queue_of(message)

    def send(
        self,
        message: Any,
        headers: Mapping[str, object],
        *,
        dead: bool,
        returns: int,
        still: Callable[[], bool],
        done: Callable[[bool], object],
    ) -> None:
        """Publish a copy, confirmed; `done` is called on another thread."""
        name = self._queue_of(message)
        queue = self.dead(name) if dead else self.later(name, returns)
        self._publisher.publish(Letter(message, queue, headers, still, done))

    def dead(self, name: str) -> Queue:
        """Give the queue of the dead letters of a queue."""
        return Queue(dead_queue(name), durable=True, queue_arguments=self._quorum())

    def later(self, name: str, returns: int) -> Queue:
        """Give the queue in which what was returned so often waits."""
        seconds = self._return_s * 2 ** min(_DOUBLINGS, max(0, returns - 1))
        arguments = self._quorum()
        if self._rabbitmq:
            arguments |= {
                "x-message-ttl": int(seconds * 1000),
                "x-dead-letter-exchange": "",
                "x-dead-letter-routing-key": name,
                "x-dead-letter-strategy": "at-least-once",
                "x-overflow": "reject-publish",
            }
        return Queue(f"{name}.later.{seconds:g}s", durable=True, queue_arguments=arguments)

    def _quorum(self) -> dict[str, object]:
        return {"x-queue-type": "quorum"} if self._rabbitmq else {}
