"""Orders taken from Redis in one atomic step, from their queue into the set of those that are not acknowledged.

Kombu takes an order by BRPOP and writes it down as taken by its next command. A worker that is killed, or loses its
connection, between the two loses the order: with a backlog such a reply lies in the socket nearly always, so each kill
costs about one. Here a script of a few lines takes it and writes it down, and waiting takes nothing: BLMOVE from the
end of a list to the same end blocks until there is an order, and leaves the list as it is.

Orders that are to wait for a while lie in a sorted set beside their queue, by when they are due. Each worker looks for
those that are; one step moves an order, so two that look together move it once, and their settings play no part in
where it lies.

Cost: one EVALSHA an order, as before one BRPOP. A worker of several queues waits at one of them and looks at the others
every `_LOOK_S`. Redis 6.2 or later; with an older one kombu's way is kept, and said.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from queue import Empty
from time import monotonic, time
from typing import Any, Final

from kombu.transport.redis import QoS
from kombu.transport.virtual.base import QoS as VirtualQoS
from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps, loads
from redis.exceptions import NoScriptError

from greenlane_work.headers import DUE, LATER

__all__ = ["put_back", "take_safely"]

_log = logging.getLogger("greenlane.work")

#: BLMOVE is there from this version on.
_LEAST: Final = (6, 2)
#: Of a worker with several queues: how late an order in any but the first is seen when nothing else comes.
_LOOK_S: Final = 0.1

#: KEYS: queues, then the hash and the sorted set of what is not acknowledged; ARGV: seconds since 1970. Gives the
#: queue's place from 1 and the message. What is no message of kombu's is put aside: it would end every worker.
_TAKE: Final = """
local unacked, index = KEYS[#KEYS - 1], KEYS[#KEYS]
for place = 1, #KEYS - 2 do
  local item = redis.call('LINDEX', KEYS[place], -1)
  while item do
    local ok, message = pcall(cjson.decode, item)
    local told = ok and type(message) == 'table' and message['properties']
    local info = type(told) == 'table' and told['delivery_info']
    if type(info) == 'table' and told['delivery_tag'] and info['exchange'] and info['routing_key'] then
      local where = cjson.encode(info['exchange']) .. ',' .. cjson.encode(info['routing_key'])
      redis.call('ZADD', index, ARGV[1], told['delivery_tag'])
      redis.call('HSET', unacked, told['delivery_tag'], '[' .. item .. ',' .. where .. ']')
      redis.call('RPOP', KEYS[place])
      return {place, item}
    end
    redis.call('LMOVE', KEYS[place], KEYS[place] .. '.malformed', 'RIGHT', 'LEFT')
    item = redis.call('LINDEX', KEYS[place], -1)
  end
end
return false
"""


def take_safely(connection: Any) -> None:
    """Let this connection to Redis, which is not made yet, take orders so."""
    transport = connection.get_transport_cls()
    channel = type("Channel", (_Taking, transport.Channel), {})
    taking = type("Transport", (transport,), {"Channel": channel})
    # `transport_cls` stays a name: `inspect stats` sends it as JSON.
    connection.get_transport_cls = lambda: taking


#: KEYS: where it waits, its queue's list; ARGV: the message. The other workers see the same ones that are due.
_PUT_BACK: Final = """
if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then redis.call('LPUSH', KEYS[2], ARGV[1]) end
"""
#: Orders that are looked for in one step.
_AT_ONCE: Final = 500


def put_back(channel: Any, queue: str) -> None:
    """Put what is due into its queue again, in the list of its priority."""
    waiting, prefix = queue + LATER, channel.global_keyprefix or ""
    with channel.conn_or_acquire() as client:
        while due := client.zrange(waiting, 0, time(), byscore=True, offset=0, num=_AT_ONCE):
            for message in due:
                priority = channel._get_message_priority(loads(bytes_to_str(message)), reverse=False)
                own = channel._q_for_pri(queue, priority)
                client.execute_command("EVAL", _PUT_BACK, 2, prefix + waiting, prefix + own, message)


class _Restoring(QoS):  # type: ignore[misc] # kombu has no types
    """Writes down once what is taken, and gives back what dead workers had, without kombu's lock.

    A worker that asks for that lock and dies, or stops waiting for a Redis that hangs, holds it for five minutes:
    nobody gives anything back meanwhile. Without it two workers may look at once; each order is moved by one of them.
    """

    #: Of the message that was taken last: it is written down as taken already.
    taken: str = ""

    def append(self, message: Any, delivery_tag: str) -> None:
        if delivery_tag == self.taken:
            VirtualQoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        if self.channel.closed:  # kombu would look for the address of a connection that has lost it
            raise ConnectionResetError("the connection to Redis is closed")
        super().ack(delivery_tag)

    def restore_unacked_once(self, stderr: Any = None) -> None:
        """Give back what is left when the channel closes. Where Redis is away, its visibility timeout does it.

        Kombu's error would end the worker for a connection that was lost.
        """
        try:
            super().restore_unacked_once(stderr)
        except Exception:
            _log.debug("what was not acknowledged comes back after its time", exc_info=True)

    def restore_visible(self, start: int = 0, num: int | None = None, interval: int = 10) -> None:
        self._vrestore_count += 1
        if (self._vrestore_count - 1) % (interval or 1):
            return
        with self.channel.conn_or_acquire() as client:
            until_s = time() - self.visibility_timeout
            for tag in client.zrange(
                self.unacked_index_key, until_s, 0, desc=True, byscore=True, offset=num and start, num=num
            ):
                self.restore_by_tag(tag, client)


class _Taking:
    """What a channel of kombu's does otherwise. `Any`: kombu has no types."""

    QoS: Final = _Restoring

    def __init__(self, *arguments: Any, **options: Any) -> None:
        # Before kombu's own, which keeps the method by which replies are read.
        self._script = ""
        self._asked: list[str] = []
        self._waits = False
        self._old: bool | None = None
        self._later: list[tuple[str, str, float]] | None = None
        super().__init__(*arguments, **options)

    def _put(self: Any, queue: str, message: Any, **options: Any) -> None:
        if not queue.endswith(LATER):
            super()._put(queue, message, **options)  # type: ignore[misc]
            return
        # A worker that dies with it gives it back to the queue that it came to.
        message["properties"]["delivery_info"] |= {"exchange": "", "routing_key": queue.removesuffix(LATER)}
        due_s = message["headers"].get(DUE, 0)
        if self._later is not None:
            self._later.append((queue, dumps(message), due_s))
            return
        with self.conn_or_acquire() as client:
            client.zadd(queue, {dumps(message): due_s})

    def _size(self: Any, queue: str) -> int:
        # Declaring a queue asks for its length, which for a sorted set is an error.
        return 0 if queue.endswith(LATER) else int(super()._size(queue))  # type: ignore[misc]

    @contextlib.contextmanager
    def together(self: Any) -> Iterator[None]:
        """Write what is published to wait in one go, when it ends."""
        waiting: list[tuple[str, str, float]] = []
        self._later = waiting
        try:
            yield
        finally:
            self._later = None
        if waiting:
            with self.conn_or_acquire() as client, client.pipeline(transaction=False) as pipe:
                for queue, message, due_s in waiting:
                    pipe.zadd(queue, {message: due_s})
                pipe.execute()

    def _brpop_start(self: Any, timeout: float | None = None) -> None:
        if self._old is None:
            self._old = _too_old(self)
        if self._old:
            super()._brpop_start(timeout)  # type: ignore[misc]
            return
        queues = self._queue_cycle.consume(len(self.active_queues))
        if not queues:
            return
        self._asked = [self._q_for_pri(queue, step) for step in self.priority_steps for queue in queues]
        connection = self._in_poll = self.client.connection
        self._brpop_sent_at = monotonic()
        prefix = self.global_keyprefix or ""
        if self._waits:
            wait_s = (timeout or self.brpop_timeout or 0) if len(queues) == 1 else _LOOK_S
            first = prefix + self._asked[0]
            connection.send_command("BLMOVE", first, first, "RIGHT", "RIGHT", wait_s)
            return
        keys = [prefix + key for key in (*self._asked, self.unacked_key, self.unacked_index_key)]
        connection.send_command("EVALSHA", self._script, len(keys), *keys, time())

    def _brpop_read(self: Any, **options: Any) -> bool:
        if self._old:
            return bool(super()._brpop_read(**options))  # type: ignore[misc]
        waited, self._waits = self._waits, False
        try:
            taken = self.client.parse_response(self.client.connection, "BLMOVE" if waited else "EVALSHA", **options)
        except NoScriptError:
            self._old = None  # Redis was emptied of its scripts: tell it again
            raise Empty from None
        except self.connection_errors:
            self.client.connection.disconnect()
            raise
        finally:
            self._in_poll = None
            self._flush_brpop_reauth()
        if waited or not taken:
            self._waits = not waited
            raise Empty
        place, item = taken
        queue = self._asked[place - 1].rsplit(self.sep, 1)[0]
        self._queue_cycle.rotate(queue)
        message = loads(bytes_to_str(item))
        self.qos.taken = message["properties"]["delivery_tag"]
        self.connection._deliver(message, queue)
        return True


def _too_old(channel: Any) -> bool:
    """Whether this Redis cannot do it; else it gets the script."""
    with channel.conn_or_acquire() as client:
        version = str(client.info("server").get("redis_version", "0"))
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdecimal())
        if numbers >= _LEAST:
            channel._script = client.script_load(_TAKE)
            return False
    _log.warning(
        "Redis %s is older than 6.2: a worker that is killed may lose the order that it is about to take", version
    )
    return True
