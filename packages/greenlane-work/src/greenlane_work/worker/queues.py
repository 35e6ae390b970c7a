"""The queues beside a queue of orders: where returned ones wait, and where dead ones lie.

    QUEUE.later.5s      orders that had no room; the broker puts each back into QUEUE after its time
    QUEUE.dead          orders that are not run any more, with their history

On RabbitMQ both are quorum queues, and what has waited is put back at least once (3.10 or later). Dead letters may be
looked at as often as anybody likes: RabbitMQ 4 drops what was put back into a quorum queue 21 times unless the queue
says otherwise; 3.x does not, and would take the word for "unlimited" as none at all. On Redis the workers
put back what waits, each order in one atomic step. Other brokers have no place to wait: the order is queued again at
once, behind the others.
"""

from __future__ import annotations

import enum
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kombu import Queue

from greenlane_work.headers import dead_queue
from greenlane_work.worker.publisher import Letter, Publisher

__all__ = ["QUEUE", "Broker", "Queues", "major_version"]

_log = logging.getLogger("greenlane.work")
#: An order that is returned again and again waits longer each time: so many doublings at most.
_DOUBLINGS: Final = 4


#: RabbitMQ from this version on drops what was delivered too often; from it on -1 means that nothing is too often.
_LIMITS_DELIVERIES: Final = 4

#: Header of a copy: the queue that its message came from. Redis knows only where a message was first put.
QUEUE: Final = "greenlane-queue"


class Broker(enum.Enum):
    """What kind of broker it is."""

    RABBITMQ = "amqp"
    REDIS = "redis"
    OTHER = "other"


class Queues:
    """The queues of one consumer."""

    def __init__(
        self,
        publisher: Publisher,
        *,
        return_s: float,
        broker: Broker,
        queue_of: Callable[[Any], str],
        version: int = 0,
    ) -> None:
        """Args: `version` of RabbitMQ, its first number; 0 = unknown."""
        self._publisher = publisher
        self._return_s = return_s
        self._rabbitmq = broker is Broker.RABBITMQ
        self._broker = broker
        self._unlimited = {"x-delivery-limit": -1} if self._rabbitmq and version >= _LIMITS_DELIVERIES else {}
        self._queue_of = queue_of
        # Redis: waiting queue -> its orders' own queue, and when it is looked at next, monotonic seconds.
        self._due: dict[str, tuple[str, float, float]] = {}

    def at(self, queue_of: Callable[[Any], str]) -> Queues:
        """Give the same, for the next connection."""
        self._queue_of = queue_of
        return self

    def watch(self, names: Iterable[str]) -> None:
        """Put back what waits for these queues, whoever had returned it; for Redis, where nobody else does."""
        if self._broker is Broker.REDIS:
            for name in names:
                for returns in range(1, _DOUBLINGS + 2):
                    wait_s = self._wait_s(returns)
                    self._due.setdefault(self.later(name, returns).name, (name, wait_s, time.monotonic() + wait_s))

    def put_back(self) -> float | None:
        """Look at the waiting queues whose time has come; give in how many seconds to call again, None = never."""
        now = time.monotonic()
        due = [(waiting, name) for waiting, (name, _, at) in self._due.items() if at <= now]
        for waiting, name in due:
            wait_s = self._due[waiting][1]
            self._due[waiting] = (name, wait_s, now + wait_s)
        if due:
            self._publisher.visit(lambda connection: _move(connection, due))
        return max(0.01, min(at for _, _, at in self._due.values()) - now) if self._due else None

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
        queue: Callable[[str], Queue],
        *,
        still: Callable[[], bool],
        done: Callable[[bool], object],
    ) -> None:
        """Publish a copy, confirmed, to `queue` (`dead`, `later`, `own`); `done` is called on another thread."""
        name = self._queue_of(message)
        self._publisher.publish(Letter(message, queue(name), {**headers, QUEUE: name}, still, done))

    def own(self, name: str) -> Queue:
        """Give the queue itself."""
        return Queue(name, durable=True)

    def dead(self, name: str) -> Queue:
        """Give the queue of the dead letters of a queue."""
        return Queue(dead_queue(name), durable=True, queue_arguments=self._quorum() | self._unlimited)

    def later(self, name: str, returns: int) -> Queue:
        """Give the queue in which what was returned so often waits."""
        if self._broker is Broker.OTHER:
            return Queue(name, durable=True)
        seconds = self._wait_s(returns)
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

    def _wait_s(self, returns: int) -> float:
        return float(self._return_s * 2 ** min(_DOUBLINGS, max(0, returns - 1)))

    def _quorum(self) -> dict[str, object]:
        return {"x-queue-type": "quorum"} if self._rabbitmq else {}


def major_version(connection: Any) -> int:
    """Give the first number of the version that a broker of AMQP tells; 0 = it tells none."""
    told = getattr(getattr(connection, "connection", None), "server_properties", None) or {}
    version = told.get("version") or ""
    first = (version.decode() if isinstance(version, bytes) else str(version)).partition(".")[0]
    return int(first) if first.isdecimal() else 0


def _move(connection: Any, due: list[tuple[str, str]]) -> None:
    """Redis: what waits now goes to the end of its queue. A kill between two steps leaves each order in one of both."""
    channel = connection.default_channel
    with channel.conn_or_acquire() as client:
        for waiting, name in due:
            for _ in range(client.llen(waiting)):
                # Kombu takes from the right and puts to the left.
                client.rpoplpush(waiting, name)
