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

from kombu.utils.encoding import bytes_to_str
from kombu.utils.json import dumps, loads
from redis.exceptions import NoScriptError

from greenlane_work.headers import DUE, LATER
from greenlane_work.worker.redis_leases import LeaseQoS, Leases

__all__ = ["put_back", "take_safely"]

_log = logging.getLogger("greenlane.work")

#: BLMOVE is there from this version on.
_LEAST: Final = (6, 2)
#: Of a worker with several queues: how late an order in any but the first is seen when nothing else comes.
_LOOK_S: Final = 0.1

#: KEYS: queues, then the hash and the sorted set of what is not acknowledged, and the key of what this worker took
#: last; ARGV: seconds since 1970, and for how many seconds the latter matters. Gives the queue's place from 1 and the
#: message. What is no message of kombu's is put aside: it would end every worker.
_TAKE: Final = """
local unacked, index, last = KEYS[#KEYS - 2], KEYS[#KEYS - 1], KEYS[#KEYS]
for place = 1, #KEYS - 3 do
  local item = redis.call('LINDEX', KEYS[place], -1)
  while item do
    local ok, message = pcall(cjson.decode, item)
    local told = ok and type(message) == 'table' and message['properties']
    local info = type(told) == 'table' and told['delivery_info']
    if type(info) == 'table' and told['delivery_tag'] and info['exchange'] and info['routing_key'] then
      local where = cjson.encode(info['exchange']) .. ',' .. cjson.encode(info['routing_key'])
      redis.call('ZADD', index, ARGV[1], told['delivery_tag'])
      redis.call('HSET', unacked, told['delivery_tag'], '[' .. item .. ',' .. where .. ']')
      redis.call('SET', last, told['delivery_tag'], 'EX', ARGV[2])
      redis.call('RPOP', KEYS[place])
      return {place, item}
    end
    redis.call('LMOVE', KEYS[place], KEYS[place] .. '.malformed', 'RIGHT', 'LEFT')
    item = redis.call('LINDEX', KEYS[place], -1)
  end
end
return false
"""


def take_safely(connection: Any, leases: Leases | None = None) -> None:
    """Let this connection to Redis, which is not made yet, take orders so. None = it takes none."""
    transport = connection.get_transport_cls()
    channel = type("Channel", (_Taking, transport.Channel), {"leases": leases or Leases()})
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


class _Taking:
    """What a channel of kombu's does otherwise. `Any`: kombu has no types."""

    QoS: Final = LeaseQoS
    leases: Leases

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
        if self.leases.asked_s:
            self.leases.compare(self, [])
        keys = [*self._asked, self.unacked_key, self.unacked_index_key, self.leases.key]
        keys = [prefix + key for key in keys]
        self.leases.asked_s = asked_s = time()
        connection.send_command("EVALSHA", self._script, len(keys), *keys, asked_s, int(self.visibility_timeout) + 1)

    def _brpop_read(self: Any, **options: Any) -> bool:
        if self._old:
            return bool(super()._brpop_read(**options))  # type: ignore[misc]
        waited, self._waits = self._waits, False
        try:
            taken = self.client.parse_response(self.client.connection, "BLMOVE" if waited else "EVALSHA", **options)
            if not waited:
                asked_s, self.leases.asked_s = self.leases.asked_s, 0.0
        except NoScriptError:
            self._old = None  # Redis was emptied of its scripts: tell it again
            self.leases.asked_s = 0.0
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
        tag = message["properties"]["delivery_tag"]
        if self.qos.comes_again(tag, asked_s):
            raise Empty
        self.qos.taken, self.qos.taken_s = tag, asked_s
        self.connection._deliver(message, queue)
        if tag not in self.qos._delivered:
            # It came to a consumer that acknowledges nothing: a reply of another worker.
            self.qos._remove_from_indices(tag).execute()
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
