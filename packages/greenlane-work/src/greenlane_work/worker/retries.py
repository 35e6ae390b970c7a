"""When an order is tried again: full jitter, a deadline over all attempts, and a budget for retries altogether.

Full jitter (Marc Brooker, "Exponential backoff and jitter", 2015): a uniform share of a bound that doubles. Orders that
failed together come back spread over the whole bound, not in a wave at its end.

The budget (as in Finagle's RetryBudget) lets a share of the calls be retries. An upstream that fails every call is then
called 1 + share times as often as orders arrive, not attempts times as often. An order that finds the budget empty
waits; it is never given up for that.
"""

from __future__ import annotations

import math
import random
import time
from _thread import allocate_lock
from dataclasses import dataclass
from typing import Final

from greenlane_work.order import Order
from greenlane_work.settings import WorkSettings
from greenlane_work.worker.totals import Totals

__all__ = ["RetryBudget", "RetryDelay", "Retrying"]

_NS: Final = 1_000_000_000


@dataclass(frozen=True)
class RetryDelay:
    """How long an order waits between two attempts."""

    #: Bound of the first wait. Half a second: longer than a connection's hiccup.
    first_s: float = 0.5
    #: Bound of every later one. A minute: an upstream that is back is found within it.
    most_s: float = 60.0
    #: Attempts in all; then the order goes to the dead letters. 0 = no end before its deadline.
    attempts: int = 10

    def delay_s(self, attempt: int, chance: float, left_s: float = math.inf) -> float:
        """The wait after an attempt, from 1, that failed; `chance` is uniform in [0, 1).

        Of the time that is left to the deadline at most half is waited: the next attempt needs some too.
        """
        return min(self.bound_s(attempt), max(left_s, 0.0) / 2) * chance

    def bound_s(self, attempt: int) -> float:
        """Most that `delay_s` gives."""
        return min(self.first_s * 2.0 ** min(attempt - 1, 62), self.most_s)

    def spent(self, attempt: int, now_s: float, deadline_s: float) -> bool:
        """Whether there is no further attempt: as many were made as there may be, or the deadline is over.

        Args:
            attempt: how many were made.
            now_s: any clock.
            deadline_s: on the same one; 0 = none.
        """
        return 0 < self.attempts <= attempt or 0 < deadline_s <= now_s


class RetryBudget:
    """A bucket of retries: each first attempt puts a share of one in, and time a few; each retry takes one out."""

    def __init__(self, share: float = 0.2, least_per_s: float = 5.0, most: float = 100.0) -> None:
        """Full at the start.

        Args:
            share: retries for each first attempt. A fifth, as in Finagle: if all fail, 20 % more calls.
            least_per_s: retries that are there without any first attempt, or nothing would ever find out.
            most: what the bucket holds, so that hours without failures do not save up a storm. Arbitrary.
        """
        self._share = share
        self._least_per_s = least_per_s
        self._most = most
        self._left = most
        self._since_ns = 0

    def attempted(self, now_ns: int) -> None:
        """A first attempt was made."""
        self._fill(now_ns)
        self._left = min(self._left + self._share, self._most)

    def take(self, now_ns: int) -> bool:
        """Take one retry out; False = there is none, wait until `ready_ns`."""
        self._fill(now_ns)
        if self._left < 1:
            return False
        self._left -= 1
        return True

    def ready_ns(self, now_ns: int) -> int:
        """When there is one, if no first attempt comes before."""
        self._fill(now_ns)
        missing = max(1 - self._left, 0.0)
        return now_ns + int(missing / self._least_per_s * _NS) + (1 if missing else 0)

    def _fill(self, now_ns: int) -> None:
        if self._since_ns:
            gained = max(now_ns - self._since_ns, 0) / _NS * self._least_per_s
            self._left = min(self._left + gained, self._most)
        self._since_ns = max(now_ns, self._since_ns, 1)


class Retrying:
    """Asked by the thread that an order failed on, told of first attempts by the owner of the channel."""

    def __init__(self, settings: WorkSettings, totals: Totals) -> None:
        self._totals = totals
        self._random = random.Random()
        self._delay = RetryDelay(settings.task_retry_s, settings.task_retry_most_s, settings.task_attempts)
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
        if self._delay.spent(order.attempts, time.time(), order.deadline_at):
            return None
        now_ns = time.monotonic_ns()
        remaining_s = order.remaining_s()
        most_s = math.inf if remaining_s is None else remaining_s
        at_ns = now_ns + int(self._delay.delay_s(order.attempts, self._random.random(), most_s) * 1e9)
        with self._guard:
            if not self._budget.take(now_ns):
                self._totals.retries_held += 1
                at_ns = max(at_ns, self._budget.ready_ns(now_ns) + int(self._random.uniform(0, 1e9)))
        # The budget may ask for more patience than there is left.
        return None if at_ns - now_ns >= most_s * 1e9 else at_ns
