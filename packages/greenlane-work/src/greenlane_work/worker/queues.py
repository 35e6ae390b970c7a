"""The queues beside a queue of orders: where returned ones wait, and where dead ones lie.

    QUEUE.later.5s      RabbitMQ: orders that had no room; the broker puts each back into QUEUE after its time
    QUEUE.later         Redis: the same, by when they are due; see `redis_take`
    QUEUE.dead          dead letters: orders that were given up, with their history

On RabbitMQ both are quorum queues, and what has waited is put back at least once (3.10 or later). Dead letters may be
looked at as often as anybody likes: RabbitMQ 4 drops what was put back into a quorum queue 21 times unless the queue
says otherwise; 3.x does not, and would take the word for "unlimited" as none at all. On Redis the workers put back
what is due. Other brokers have no place to wait: the order is queued again at once, behind the others.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kombu import Queue

from greenlane_work.headers import HISTORY, LATER, dead_queue
from greenlane_work.worker.publisher import Letter, Publisher

__all__ = ["QUEUE", "Broker", "Queues", "major_version"]

#: An order that is returned again and again waits longer each time: at most this many doublings.
_DOUBLINGS: Final = 4
#: Of the wait for a time that is far off: 5 s become four days.
_DOUBLINGS_FAR: Final = 16
#: Redis: between two looks at what is due. Arbitrary; one ZRANGE a queue.
_LOOK_S: Final = 0.5

#: RabbitMQ from this version on drops what was delivered too often; from it on -1 means that nothing is too often.
_LIMITS_DELIVERIES: Final = 4

#: Header of a copy: the queue that its message came from. Redis knows only where a message was first put.
QUEUE: Final = "greenlane-queue"
#: What a copy can do without: its history, and Celery's texts of its arguments, which are in its body.
_SPARE: Final = (HISTORY, "argsrepr", "kwargsrepr")


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
        self._names: Callable[[], Iterable[str]] = tuple

    def at(self, queue_of: Callable[[Any], str]) -> Queues:
        """Give the same, for the next connection."""
        self._queue_of = queue_of
        return self

    def watch(self, names: Callable[[], Iterable[str]]) -> None:
        """Put back what waits for these queues, returned by any worker; `names` is asked each time."""
        self._names = names

    def put_back(self) -> float | None:
        """Redis: put back what is due; give in how many seconds to call again, None = the broker does it."""
        if self._broker is not Broker.REDIS:
            return None
        names = list(self._names())
        self._publisher.visit("putting back what waits there", lambda connection: _put_back(connection, names))
        return min(_LOOK_S, self._return_s)

    def visit(self, name: str, visit: Callable[[Any], object]) -> None:
        """Let something be done on the publisher's thread, in place of what waits there under this name."""
        self._publisher.visit(name, visit)

    def stop(self) -> None:
        """Stop publishing."""
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
        self._publisher.publish(Letter(message, queue(name), {**headers, QUEUE: name}, still, done, _SPARE))

    def own(self, name: str) -> Queue:
        """Give the queue itself, which Celery declares: it knows the arguments, and with others nobody could use it."""
        return Queue(name, durable=True, no_declare=True)

    def dead(self, name: str) -> Queue:
        """Give the queue of the dead letters of a queue."""
        return Queue(dead_queue(name), durable=True, queue_arguments=self._quorum() | self._unlimited)

    def wait_s(self, returns: int, least_s: float = 0.0) -> float:
        """How long what was returned this often waits at the broker, unless it must wait longer anyway.

        On RabbitMQ each time has a queue of its own, so there are few of them: an order that must wait for days comes
        back some ten times meanwhile.
        """
        wait_s = float(self._return_s * 2 ** min(_DOUBLINGS, max(0, returns - 1)))
        if least_s <= wait_s:
            return wait_s
        if self._broker is Broker.REDIS:
            return least_s
        return float(self._return_s * 2 ** min(int(math.log2(least_s / self._return_s)), _DOUBLINGS_FAR))

    def later(self, name: str, seconds: float) -> Queue:
        """Give the queue in which an order waits for this long."""
        if self._broker is Broker.OTHER:
            return Queue(name, durable=True)
        if self._broker is Broker.REDIS:
            return Queue(f"{name}{LATER}", durable=True)
        arguments = self._quorum() | {
            "x-message-ttl": int(seconds * 1000),
            "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": name,
            "x-dead-letter-strategy": "at-least-once",
            "x-overflow": "reject-publish",
        }
        return Queue(f"{name}.later.{seconds:g}s", durable=True, queue_arguments=arguments)

    def _quorum(self) -> dict[str, object]:
        return {"x-queue-type": "quorum"} if self._rabbitmq else {}


def major_version(connection: Any) -> int:
    """Give the first number of the version that a broker of AMQP tells; 0 = it tells none."""
    told = getattr(getattr(connection, "connection", None), "server_properties", None) or {}
    version = told.get("version") or ""
    first = (version.decode() if isinstance(version, bytes) else str(version)).partition(".")[0]
    return int(first) if first.isdecimal() else 0


def _put_back(connection: Any, names: Iterable[str]) -> None:
    from greenlane_work.worker.redis_take import put_back  # Redis' own client is not always there

    for name in names:
        put_back(connection.default_channel, name)
