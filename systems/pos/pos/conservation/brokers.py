"""The broker of a cell, as site and faults see it: its own queues in a RabbitMQ that other cells use too, or a Redis.

What Redis does not promise: kombu's transport takes an order out of its queue (BRPOP) and writes down who has it with
the next command. An order on its way between the two, when the worker or the network dies, is in neither place: lost.
Nobody can see it from outside but by counting, which is what the books do.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Protocol

import amqp
import redis
from kombu import Connection
from kombu.exceptions import OperationalError

from greenlane_tools.lab.processes import StartFailed
from pos.broker import RabbitMQ

from . import servers
from .orders import queue_of

#: Where stock Celery lets orders wait for their time when queues are quorum queues.
_DELAYED: Final = "celery_delayed"
#: What a RabbitMQ that is gone, or goes, makes of a question.
_BROKEN: Final = (amqp.AMQPError, OperationalError, OSError)
#: Where kombu keeps in Redis what workers have.
_UNACKED: Final = "unacked"
#: Behind a queue's name: where Greenlane's workers let orders wait.
_LATER: Final = ".later"
#: A client's last command when it waits for an order: stock Celery's, and those of `greenlane_work.celery`.
_TAKING: Final = ("brpop", "blmove", "evalsha")


class Broker(Protocol):
    """What every kind has."""

    port: int

    @property
    def url(self) -> str:
        """As Celery's `broker_url`."""

    def url_at(self, port: int) -> str:
        """The same by another port: a relay's."""

    def running(self) -> contextlib.AbstractContextManager[None]:
        """The queues are there for the block."""

    def consumers(self) -> int:
        """How many workers wait for orders of the first queue."""

    def waiting(self) -> Mapping[str, int]:
        """Per queue, those of dead letters too: messages that wait, exactly. Cheap.

        Raises:
            StartFailed: it does not answer.
        """

    def taken(self) -> int:
        """Messages that workers have and have not acknowledged.

        Raises:
            StartFailed: it does not answer.
        """

    def read(self, queue: str) -> Iterator[Mapping[str, Any]]:
        """Headers of all messages of a queue, which are gone then."""

    def undisturbed(self) -> contextlib.AbstractContextManager[None]:
        """No other cell kills it in the block."""

    def kill(self) -> None:
        """SIGKILL."""

    def restart(self) -> None:
        """Starts it after `kill` with what it had; comes back once it answers."""

    def pause(self) -> None:
        """SIGSTOP."""

    def go_on(self) -> None:
        """SIGCONT."""


class RabbitQueues:
    """Queues of one cell in a RabbitMQ. Others' queues are neither seen nor touched; its faults strike all cells.

    Args:
        node: runs already.
        names: the queues of orders; those beside them (`NAME.later.5s`, `NAME.dead`) are theirs too.
        kind: "classic" or "quorum".
    """

    def __init__(self, node: SharedRabbitMQ, names: Sequence[str], kind: str) -> None:
        self._node, self._names, self._kind = node, names, kind
        # All that there are, as far as it was asked; workers make some.
        self._known = {*names, *(f"{name}.dead" for name in names)}
        self.port, self.url = node.port, node.url
        self.url_at, self.kill, self.restart = node.url_at, node.kill, node.restart
        self.pause, self.go_on, self.undisturbed = node.pause, node.go_on, node.undisturbed

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The queues are there for the block."""
        with Connection(self.url) as connection:
            for name in self._names:
                queue_of(name, self._kind)(connection.default_channel).declare()
                connection.default_channel.queue_declare(
                    f"{name}.dead", durable=True, auto_delete=False, arguments={"x-queue-type": "quorum"}
                )
        try:
            yield
        finally:
            with contextlib.suppress(*_BROKEN), Connection(self.url) as connection:
                for name in self._known:
                    if not name.startswith(_DELAYED):  # every cell's
                        connection.default_channel.queue_delete(name)

    def consumers(self) -> int:
        """How many workers wait for orders of the first queue; 0 too when another cell has just killed the node."""
        with contextlib.suppress(*_BROKEN), Connection(self.url) as connection:
            return int(connection.default_channel.queue_declare(self._names[0], passive=True)[2])
        return 0

    def waiting(self) -> Mapping[str, int]:
        """See `Broker`; of the queues that there were at the last `taken`."""
        try:
            with Connection(self.url) as connection:
                return {name: _waiting(connection, name) for name in self._known}
        except _BROKEN as error:
            raise StartFailed(f"ask RabbitMQ: {error!r}, expected the length of each queue") from error

    def taken(self) -> int:
        """See `Broker`; about 0.7 s of CPU, since Erlang starts for it. Of quorum queues it is up to 5 s old."""
        depths = {name: unacked for name, (_, unacked) in self._node.depths().items() if self._mine(name)}
        self._known |= depths.keys()
        return sum(depths.values())

    def read(self, queue: str) -> Iterator[Mapping[str, Any]]:
        """Headers of all messages of a queue, which are gone then."""
        with Connection(self.url) as connection:
            while message := connection.default_channel.basic_get(queue, no_ack=True):
                yield message.headers

    def _mine(self, name: str) -> bool:
        beside = tuple(f"{one}." for one in self._names)
        return name in self._names or name.startswith((*beside, *((_DELAYED,) if self._kind == "quorum" else ())))


def _waiting(connection: Connection, queue: str) -> int:
    channel = connection.channel()
    try:
        return int(channel.queue_declare(queue, passive=True)[1])
    except amqp.NotFound:  # the broker deletes those that nobody has used for a while
        return 0
    finally:
        channel.close()


class RedisQueues(servers.Redis):
    """A Redis of the cell's own, with kombu's lists in it."""

    def url_at(self, port: int) -> str:
        """The same by another port: a relay's."""
        return self.url.replace(f":{self.port}/", f":{port}/")

    def undisturbed(self) -> contextlib.AbstractContextManager[None]:
        """It is no other cell's."""
        return contextlib.nullcontext()

    def restart(self) -> None:
        """Starts it after `kill` with what it had."""
        self.start()

    def consumers(self) -> int:
        """How many workers wait for orders."""
        return sum(1 for client in self._client().client_list() if client["cmd"] in _TAKING)

    def waiting(self) -> Mapping[str, int]:
        """See `Broker`; and `unacked`, which holds what workers had, until another one takes it after its time."""
        try:
            client = self._client()
            lists = {name: int(client.llen(name)) for name in client.scan_iter(_type="list")}
            later = {name: int(client.zcard(name)) for name in client.scan_iter(f"*{_LATER}")}
            return {**lists, **later, _UNACKED: self.taken()}
        except redis.RedisError as error:
            raise StartFailed(f"ask Redis: {error}, expected the length of each list") from error

    def taken(self) -> int:
        """See `Broker`."""
        try:
            return int(self._client().hlen(_UNACKED))
        except redis.RedisError as error:
            raise StartFailed(f"ask Redis: {error}, expected the number of orders that workers have") from error

    def read(self, queue: str) -> Iterator[Mapping[str, Any]]:
        """Headers of all messages of a queue, or of `unacked`, which are gone then."""
        client = self._client()
        if queue == _UNACKED:
            messages = [json.loads(raw)[0] for raw in client.hvals(queue)]
        elif queue.endswith(_LATER):
            messages = [json.loads(raw) for raw in client.zrange(queue, 0, -1)]
        else:
            messages = [json.loads(raw) for raw in client.lrange(queue, 0, -1)]
        client.delete(queue)
        yield from (message["headers"] for message in messages)

    def _client(self) -> Any:
        return redis.Redis(port=self.port, decode_responses=True, socket_timeout=5)


# --- A RabbitMQ that faults strike: paused, asked for the lengths of its queues, reached through a relay.


class SharedRabbitMQ(RabbitMQ):
    """A broker with the user guest. Cells may share it: what one does to it strikes all, but none while it reads."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._down = threading.Lock()

    def kill(self) -> None:
        """SIGKILL, once nobody reads queues. `restart` must follow, from a thread that outlives the node."""
        self._taken()
        super().kill()

    def url_at(self, port: int) -> str:
        """Its default virtual host by another port: a relay's."""
        return self.url.replace(f":{self.port}/", f":{port}/")

    def restart(self) -> None:
        """Starts it after `kill`, with the queues that it had; comes back once it answers, after some 4 s."""
        self.start()
        self.wait_ready()
        self._down.release()

    @contextlib.contextmanager
    def undisturbed(self) -> Iterator[None]:
        """It runs, and nobody kills it in the block.

        Raises:
            StartFailed: it is not back within a minute.
        """
        self._taken()
        try:
            yield
        finally:
            self._down.release()

    def _taken(self) -> None:
        if not self._down.acquire(timeout=60):
            raise StartFailed("read RabbitMQ's queues: it was killed and is not back after 60 s")
