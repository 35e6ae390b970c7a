"""N orders at a bounded rate, each published until the broker has confirmed it: none is lost before it is there.

Confirms come late and many at a time, so the publisher does not wait for each: at most WINDOW orders are out without
one. When the connection breaks, those are published again by the next: an order may then be in the queue twice, as with
any careful producer.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from celery import Celery
from kombu import Connection, Producer
from kombu.exceptions import OperationalError

from .merchant import share
from .orders import ORDER, TASK

WINDOW: Final = 200
_WAIT_S: Final = 0.02
_AGAIN_S: Final = 0.2


class Publisher(threading.Thread):
    """A thread that publishes and ends when all is confirmed.

    Args:
        app: whose message format is used.
        url: the broker.
        orders: order -> merchant.
        rate_per_s: bound of the rate; what a broken connection delayed is made up for at once.
        queues: the old queue and the new one.
    """

    def __init__(
        self, app: Celery, url: str, orders: Mapping[str, str], rate_per_s: float, queues: Sequence[str]
    ) -> None:
        super().__init__(name="publisher", daemon=True)
        self._app, self._url, self._queues = app, url, queues
        self._merchants = orders
        self._rate_per_s = rate_per_s
        self._to_send = deque(orders)
        self._out: dict[int, str] = {}
        self._stopped = threading.Event()
        # Written by this thread, read by any.
        self.confirmed: dict[str, float] = {}
        self.published_again = 0
        #: Share of orders that goes to the new queue, by hash of the order; written by any thread.
        self.share = 0.0

    @property
    def sent(self) -> int:
        """How many orders are confirmed or on their way to the broker."""
        return len(self.confirmed) + len(self._out)

    @property
    def done_frac(self) -> float:
        """Which share of the orders is confirmed."""
        return len(self.confirmed) / len(self._merchants)

    def stop(self) -> None:
        """Ends it early; comes back when it has ended."""
        self._stopped.set()
        if self.ident is not None:
            self.join()

    def run(self) -> None:
        """Publishes. One connection after the other until everything is confirmed."""
        self._begun_s = time.monotonic()
        broken = Connection(self._url)
        errors = (*broken.connection_errors, *broken.channel_errors, OperationalError, OSError)
        while len(self.confirmed) < len(self._merchants) and not self._stopped.is_set():
            with (
                contextlib.suppress(*errors),
                Connection(self._url, connect_timeout=2) as connection,
            ):
                self._publish(connection)
            self.published_again += len(self._out)
            self._to_send.extendleft(self._out.values())
            self._out.clear()
            self._stopped.wait(_AGAIN_S)

    def _publish(self, connection: Connection) -> None:
        channel = connection.default_channel
        # Redis answers each publish when it has it; RabbitMQ says so some time later.
        confirms = hasattr(channel, "confirm_select")
        if confirms:
            channel.confirm_select()
            channel.events["basic_ack"].add(self._confirm)
        producer, sent = Producer(channel), 0
        while (self._to_send or self._out) and not self._stopped.is_set():
            while self._to_send and len(self._out) < WINDOW and self._due():
                order = self._to_send.popleft()
                sent += 1
                self._out[sent] = order
                self._send(producer, order)
                if not confirms:
                    self._confirm(sent, False)
            if confirms:
                with contextlib.suppress(TimeoutError):
                    connection.drain_events(timeout=_WAIT_S)
            else:
                time.sleep(_WAIT_S)

    def _due(self) -> bool:
        return self.sent <= (time.monotonic() - self._begun_s) * self._rate_per_s

    def _send(self, producer: Producer, order: str) -> None:
        named = {"order": order, "merchant": self._merchants[order]}
        message = self._app.amqp.create_task_message(order, TASK, (), named)
        producer.publish(
            message.body, exchange="", routing_key=self._queue_of(order), serializer="json", delivery_mode=2,
            headers={**message.headers, ORDER: order}, **message.properties,
        )  # fmt: skip

    def _queue_of(self, order: str) -> str:
        old, new = self._queues
        return new if share(order) < self.share else old

    def _confirm(self, tag: int, multiple: bool) -> None:
        now_s = time.time()
        for one in [out for out in self._out if out <= tag] if multiple else [tag]:
            self.confirmed[self._out.pop(one)] = now_s
