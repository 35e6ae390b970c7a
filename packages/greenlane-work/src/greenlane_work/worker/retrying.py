"""When this worker tries a failed order again: the rules of `tasks/retries`, behind a lock."""

from __future__ import annotations

import math
import random
import time
from _thread import allocate_lock

from greenlane.settings import Settings
from greenlane_work.worker.totals import Totals
from greenlane_work.order import Order
from greenlane_work.worker.retries import Backoff, RetryBudget

__all__ = ["Retrying"]


class Retrying:
    """Asked by the thread that an order failed on, told of first attempts by the owner of the channel."""

    def __init__(self, settings: Settings, totals: Totals) -> None:
        self._totals = totals
        self._random = random.Random()
        self._backoff = Backoff(settings.task_retry_s, settings.task_retry_most_s, settings.task_attempts)
        self._budget = RetryBudget(settings.task_retry_budget_frac)
        self._guard = allocate_lock()

    def attempted(self) -> None:
        """Count a first attempt."""
        with self._guard:
            self._budget.attempted(time.monotonic_ns())

    def again_ns(self, order: Order) -> int | None:
        """Give when a failed order is run again; None: attempts or deadline do not allow it. From any thread.

        A retry for which the budget has none left waits until it has.
        """
        if self._backoff.spent(order.attempts, time.time(), order.deadline_at):
            return None
        now_ns = time.monotonic_ns()
        remaining_s = order.remaining_s()
        most_s = math.inf if remaining_s is None else remaining_s
        at_ns = now_ns + int(self._backoff.delay_s(order.attempts, self._random.random(), most_s) * 1e9)
        with self._guard:
            if not self._budget.take(now_ns):
                self._totals.retries_held += 1
                at_ns = max(at_ns, self._budget.ready_ns(now_ns) + int(self._random.uniform(0, 1e9)))
        # The budget may ask for more patience than there is left.
        return None if at_ns - now_ns >= most_s * 1e9 else at_ns
