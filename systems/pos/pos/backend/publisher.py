"""Orders to the broker: Celery publishes with confirms and blocks, so threads do it."""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from celery import Celery
from kombu.exceptions import OperationalError

from greenlane_work.diversion import divert
from pos.journal import Entry, Event, Journal
from pos.queueing import QUEUE, application, publish
from pos.surroundings import Surroundings

# Each waits for the broker's confirmation; together they do some hundreds a second.
_THREADS: Final = 8
_CONFIRM_S: Final = 5.0


class NotTaken(Exception):
    """The broker did not confirm: the order may be sent again, with the same id."""


class Publisher:
    """Publishes for a loop.

    Args:
        around: where the broker and the journal are, and whether orders are diverted.
    """

    def __init__(self, around: Surroundings) -> None:
        self._app: Celery = application(
            around, broker_pool_limit=_THREADS, broker_connection_timeout=2.0,
            task_publish_retry_policy={"max_retries": 2, "interval_start": 0.0, "interval_step": 0.2},
        )  # fmt: skip
        self._journal = Journal(around.journal)
        self._diversion = around.diversion
        self._threads = ThreadPoolExecutor(_THREADS, "publisher")

    async def publish(self, order: str, merchant: str, within_s: float = 0.0) -> Entry:
        """The broker has the order now, on its word; the line that stands in the journal.

        `within_s`: it is not sent later than that, but refunded; 0 = it never is too late.

        Raises:
            NotTaken: no confirmation.
        """
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._publish, order, merchant, within_s)

    def _publish(self, order: str, merchant: str, within_s: float) -> Entry:
        queue = divert(QUEUE, order, at=self._diversion) if self._diversion else QUEUE
        at_ns = time.monotonic_ns()
        try:
            publish(self._app, order, merchant, within_s=within_s, queue=queue, confirm_timeout=_CONFIRM_S)
        except (OperationalError, OSError) as error:
            raise NotTaken(f"{type(error).__name__}: {error}") from None
        self._journal.tell(Event.PUBLISHED, order, merchant, queue, at_ns)
        return Entry(at_ns, Event.PUBLISHED, order, merchant, os.getpid(), queue)

    def close(self) -> None:
        """Ends its threads and connections."""
        self._threads.shutdown(cancel_futures=True)
        self._app.close()
        self._journal.close()


# --- Orders that nobody made: the backend's own demand, dealt out among the merchants at an even rate.

# Above it the backend would fall behind; what it then owes is forgotten.
MOST_PER_S: Final = 300.0
_OWED_S: Final = 1.0
# A change of the rate is noticed so soon.
_LOOK_S: Final = 0.1


class Demand:
    """Places orders until it is cancelled.

    Args:
        place: takes an order's id and its merchant; what it raises is counted and forgotten.
        merchants: in the order in which they get one.
        per_s: orders a second at first.
        prefix: begins each id.
    """

    def __init__(
        self, place: Callable[[str, str], Awaitable[object]], merchants: Sequence[str], per_s: float, prefix: str
    ) -> None:
        self._place = place
        self._merchants = itertools.cycle(merchants)
        self._prefix = prefix
        self._numbers = itertools.count(1)
        self._running: set[asyncio.Task[None]] = set()
        self.per_s = per_s
        self.refused = 0

    async def run(self) -> None:
        """Open loop: an order is placed when its time has come, whatever became of those before."""
        now = asyncio.get_running_loop().time
        placed_s = now()
        while True:
            if self.per_s <= 0:
                await asyncio.sleep(_LOOK_S)
                placed_s = now()
                continue
            left_s = placed_s + 1 / self.per_s - now()
            if left_s > 0:
                await asyncio.sleep(min(left_s, _LOOK_S))
                continue
            placed_s = max(placed_s + 1 / self.per_s, now() - _OWED_S)
            task = asyncio.create_task(self._one(f"{self._prefix}-{next(self._numbers)}", next(self._merchants)))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            # A publisher that is behind lets others run, too.
            await asyncio.sleep(0)

    async def _one(self, order: str, merchant: str) -> None:
        try:
            await self._place(order, merchant)
        except Exception:
            self.refused += 1
