"""What Redis has given to this worker, over all of its connections.

Redis knows an order that was taken by its tag, in `unacked`, and not by the connection that took it. So a lost
connection takes nothing back: what this worker had is still its own, and it goes on with it. Kombu would put all of it
into its queue again, where another worker begins it a second time; and if Redis is away at that moment, nobody does
anything until the visibility timeout.

After a reconnect Redis is told again what was acknowledged: it may not have heard it, or have lost it in a crash. The
score of an order in `unacked_index` is the time that its taker wrote: with another score, or without one, the order is
no longer this worker's. And the key `greenlane.taken.…` has the tag that this worker took last: if the answer was lost,
that order goes back to its queue.

Cost: one SET an order, in the script that takes it; after a reconnect one script.
"""

from __future__ import annotations

import contextlib
import logging
import uuid
from collections import OrderedDict
from time import time
from typing import Any, Final

from kombu.transport.redis import QoS
from kombu.transport.virtual.base import QoS as VirtualQoS

__all__ = ["LeaseQoS", "Leases"]

_log = logging.getLogger("greenlane.work")

#: Acknowledgements that Redis is told again: a Redis that writes to its disk every second has lost fewer. Some MB.
_REMEMBERED: Final = 20_000
#: At the end of a worker that has lost its connection. Arbitrary.
_CONNECT_S: Final = 3

#: KEYS: the hash and the sorted set of what is not acknowledged, and the key of what was taken last. ARGV: how many
#: tags are acknowledged, these, and the tags that this worker has. Gives the scores of the latter, the tag that was
#: taken last, and its score.
_COMPARE: Final = """
local acks = tonumber(ARGV[1])
for place = 2, acks + 1 do
  redis.call('HDEL', KEYS[1], ARGV[place])
  redis.call('ZREM', KEYS[2], ARGV[place])
end
local scores = {}
for place = acks + 2, #ARGV do
  scores[#scores + 1] = redis.call('ZSCORE', KEYS[2], ARGV[place])
end
local last = redis.call('GET', KEYS[3])
return {scores, last, last and redis.call('ZSCORE', KEYS[2], last)}
"""


class Leases:
    """Of one worker. The owner of the channel calls everything here."""

    def __init__(self) -> None:
        self.key: Final = f"greenlane.taken.{uuid.uuid4().hex}"
        # Tags, the newest last.
        self.acks: OrderedDict[str, None] = OrderedDict()
        # Some of these Redis has not heard.
        self.unheard = False
        # The score of the take that Redis has not answered yet; 0 = none.
        self.asked_s = 0.0
        # The worker ends: what it still has goes back to its queue when the channel closes.
        self.ending = False
        self._qos: LeaseQoS | None = None

    @property
    def cut_off(self) -> bool:
        """The channel of these orders is closed, and there is no other one yet."""
        return self._qos is not None and bool(self._qos.channel.closed)

    def acknowledge(self, tag: str) -> None:
        """Remember it: Redis is told again after a reconnect."""
        self.acks[tag] = None
        if len(self.acks) > _REMEMBERED:
            self.acks.popitem(last=False)

    def take_over(self, channel: Any) -> int:
        """Let the channel of a new connection have what the last one had; compare with what Redis knows.

        Gives how many messages are no longer this worker's. Their `channel` is None then.
        """
        qos, last = channel.qos, self._qos
        self._qos = qos
        if last is None or last is qos:
            return 0
        # Before Redis is asked: under gevent others acknowledge meanwhile.
        for tag, message in last.release():
            message.channel = channel
            VirtualQoS.append(qos, message, tag)
        scores = self.compare(channel, list(qos._delivered))
        gone = [tag for tag, score in scores.items() if not (tag in self.acks or _owns(qos._delivered[tag], score))]
        for tag in gone:
            qos._delivered.pop(tag).channel = None
        return len(gone)

    def leave(self, connection: Any) -> None:
        """Acknowledge and give back by a connection of its own: the worker ends after it lost the one that it had."""
        try:
            with connection:
                connection.ensure_connection(interval_start=0.2, interval_step=0.2, timeout=_CONNECT_S)
                self.take_over(connection.default_channel)
        except Exception as error:
            _log.warning(
                "ending without Redis: what this worker had or acknowledged since comes back after the visibility "
                "timeout: %r",
                error,
            )

    def tell(self) -> bool:
        """Tell Redis again what it has not heard; True = it has heard all, or there is no channel to tell it by."""
        if self.unheard and self._qos is not None and not self.cut_off:
            with contextlib.suppress(*self._qos.channel.connection_errors):
                self.compare(self._qos.channel, [])
        return not self.unheard or self.cut_off

    def compare(self, channel: Any, tags: list[str]) -> dict[str, float | None]:
        """Tell Redis what is acknowledged, and put back what it gave without an answer; give the scores of these."""
        prefix = channel.global_keyprefix or ""
        keys = [prefix + key for key in (channel.unacked_key, channel.unacked_index_key, self.key)]
        acks = list(self.acks)
        with channel.conn_or_acquire() as client:
            scores, taken, score = client.execute_command("EVAL", _COMPARE, 3, *keys, len(acks), *acks, *tags)
        self.unheard = False
        if self.asked_s and _number(score) == self.asked_s:
            channel.qos.restore_by_tag(taken)
        self.asked_s = 0.0
        return dict(zip(tags, map(_number, scores), strict=True))


class LeaseQoS(QoS):  # type: ignore[misc] # kombu has no types
    """Writes down once what is taken, and gives back what dead workers had, without kombu's lock.

    A worker that asks for that lock and dies, or stops waiting for a Redis that hangs, holds it for five minutes:
    nobody gives anything back meanwhile. Without it two workers may look at once; each order is moved by one of them.
    """

    #: Of the message that was taken last: it is written down as taken already, with this score.
    taken: str = ""
    taken_s: float = 0.0

    @property
    def _leases(self) -> Leases:
        leases: Leases = self.channel.leases
        return leases

    def append(self, message: Any, delivery_tag: str) -> None:
        """Write down that it was taken, unless that is done."""
        if delivery_tag == self.taken:
            message.score = self.taken_s
            VirtualQoS.append(self, message, delivery_tag)
        else:
            super().append(message, delivery_tag)

    def ack(self, delivery_tag: str) -> None:
        """Say that it is done with. Redis gets it again after a reconnect."""
        self._leases.acknowledge(delivery_tag)
        VirtualQoS.ack(self, delivery_tag)
        try:
            if self.channel.closed:  # kombu would look for the address of a connection that has lost it
                raise ConnectionResetError("the connection to Redis is closed")
            self._remove_from_indices(delivery_tag).execute()
        except self.channel.connection_errors:
            self._leases.unheard = True

    def reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """Give it back."""
        if not self.channel.closed:  # else it is put back at the end, with what was not acknowledged
            super().reject(delivery_tag, requeue)

    def comes_again(self, tag: str, score: float) -> bool:
        """Whether a message that was just taken is here, or was acknowledged: Redis had lost that it was taken."""
        if tag in self._leases.acks:
            self.ack(tag)
            return True
        message = self._delivered.get(tag)
        if message is not None:
            message.score = score
        return message is not None

    def release(self) -> list[tuple[str, Any]]:
        """Give what is not acknowledged, and forget it."""
        self._on_collect.cancel()
        self._flush()
        messages = list(self._delivered.items())
        self._delivered.clear()
        return messages

    def restore_unacked_once(self, stderr: Any = None) -> None:
        """Give back what is left when the worker ends. Where Redis is away, its visibility timeout does it.

        Kombu's error would end the worker for a connection that was lost.
        """
        if not self._leases.ending:
            self._on_collect.cancel()  # the next channel has them
            return
        try:
            if self._leases.unheard:
                self._leases.compare(self.channel, [])
            super().restore_unacked_once(stderr)
            with self.channel.conn_or_acquire() as client:
                client.delete(self._leases.key)
        except Exception:
            _log.debug("what was not acknowledged comes back after its time", exc_info=True)

    def restore_visible(self, start: int = 0, num: int | None = None, interval: int = 10) -> None:
        """Give back what was taken before the visibility timeout."""
        self._vrestore_count += 1
        if (self._vrestore_count - 1) % (interval or 1):
            return
        with self.channel.conn_or_acquire() as client:
            until_s = time() - self.visibility_timeout
            for tag in client.zrange(
                self.unacked_index_key, until_s, 0, desc=True, byscore=True, offset=num and start, num=num
            ):
                self.restore_by_tag(tag, client)


def _owns(message: Any, score: float | None) -> bool:
    """Whether the score at Redis is the one with which this worker took it; kombu's own way does not know its score."""
    return score is not None and score == getattr(message, "score", score)


def _number(text: bytes | None) -> float | None:
    return None if text is None else float(text)
