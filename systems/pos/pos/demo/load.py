"""Orders: published in an open loop, each when its time has come; or all of them beforehand."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

from celery import Celery

from greenlane.errors import GreenlaneError
from greenlane_tools.lab.interruption import checkpoint
from pos.queueing import QUEUE, application, publish
from pos.surroundings import Surroundings

# A publish waits for the broker's confirmation, some milliseconds: this many wait at the same time.
_THREADS: Final = 4
# All that was published at once is in the queue some milliseconds later.
_ARRIVE_S: Final = 10.0


class OpenLoop:
    """Publishes orders at an even rate, dealt out among merchants in turn, whatever becomes of them.

    Args:
        app: through which.
        prefix: begins each order's id.
        merchants: in turn.
        per_s: orders a second.
        seconds: how long.
    """

    def __init__(self, app: Celery, prefix: str, merchants: Sequence[str], per_s: float, seconds: float) -> None:
        self._app = app
        self._start_ns = time.monotonic_ns() + 50_000_000
        self._step_ns = 1e9 / per_s
        count = round(per_s * seconds)
        self.orders = [(f"{prefix}-{number}", merchants[number % len(merchants)]) for number in range(count)]
        self._lags_ns = [0] * count
        self._stopped = threading.Event()
        self._errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._run, args=(first,), daemon=True) for first in range(_THREADS)]

    def due_ns(self, number: int) -> int:
        """When an order is due: its latency starts then. CLOCK_MONOTONIC."""
        return self._start_ns + round(number * self._step_ns)

    def start(self) -> None:
        """Begins; does not wait."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Publishes no more."""
        self._stopped.set()
        for thread in self._threads:
            thread.join(timeout=10)

    def wait(self) -> float:
        """Blocks until all are published; how late the latest publish began, in ms.

        Raises:
            GreenlaneError: the broker took one of them not.
        """
        while any(thread.is_alive() for thread in self._threads):
            time.sleep(0.05)
            checkpoint()
        if self._errors:
            raise GreenlaneError(f"publish an order: {self._errors[0]!r}, expected the broker to confirm it")
        return max(self._lags_ns, default=0) / 1e6

    def _run(self, first: int) -> None:
        try:
            for number in range(first, len(self.orders), _THREADS):
                left_s = (self.due_ns(number) - time.monotonic_ns()) / 1e9
                if self._stopped.wait(max(0.0, left_s)):
                    return
                self._lags_ns[number] = time.monotonic_ns() - self.due_ns(number)
                publish(self._app, *self.orders[number])
        except BaseException as error:
            self._errors.append(error)


def preload(around: Surroundings, orders: Sequence[tuple[str, str]]) -> None:
    """Publishes all orders at once, before a worker comes.

    Single confirmations would take longer than the run: that all have arrived is seen by the queue's length.

    Raises:
        GreenlaneError: they have not.
    """
    app = application(around, broker_transport_options={})
    with app.connection_for_write() as connection, app.amqp.Producer(connection) as producer:
        queue = connection.default_channel.queue_declare
        before = queue(QUEUE, passive=True).message_count
        for at, (order, merchant) in enumerate(orders):
            publish(app, order, merchant, producer=producer)
            if at % 100 == 0:
                checkpoint()
        until = time.monotonic() + _ARRIVE_S
        while (there := queue(QUEUE, passive=True).message_count - before) < len(orders) and time.monotonic() < until:
            time.sleep(0.02)
    app.close()
    if there < len(orders):
        raise GreenlaneError(f"publish {len(orders)} orders: {there} have arrived, expected all of them")
