"""When an order is tried again: full jitter, a deadline over all attempts, and a budget of retries for each key.

Full jitter (Marc Brooker, "Exponential backoff and jitter", 2015): a uniform share of a bound that doubles. Orders that
failed together come back spread over the whole bound, not in a wave at its end.

The budget (as in Finagle's RetryBudget) lets a share of a key's successful calls be retried. An upstream that fails
every call gets one retry a second, however many orders fail. An order that finds the budget empty waits; it is never
given up for that.
"""

from __future__ import annotations

import math
import random
import time
from _thread import allocate_lock
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from greenlane_work.limits import UpstreamRule, retries_of_keys
from greenlane_work.order import NotSent, Order
from greenlane_work.settings import WorkSettings
from greenlane_work.worker.outcomes import causes
from greenlane_work.worker.totals import Totals

__all__ = ["RetryBudget", "RetryDelay", "Retrying"]

_NS: Final = 1_000_000_000
#: The longest wait between two attempts, as a multiple of the first: with 1 s, an upstream that is back is found within
#: a minute.
_RETRY_MOST: Final = 60
#: A task's attribute: how many further runs after it raised.
RETRIES: Final = "greenlane_retries"


@dataclass(frozen=True)
class RetryDelay:
    """How long an order waits between two attempts."""

    #: Bound of the first wait. Half a second: longer than a connection's hiccup.
    first_s: float = 0.5
    #: Bound of every later one. A minute: an upstream that is back is found within it.
    most_s: float = 60.0

    def delay_s(self, attempt: int, chance: float, left_s: float = math.inf) -> float:
        """The wait after an attempt, from 1, that failed; `chance` is uniform in [0, 1).

        Of the time that is left to the deadline at most half is waited: the next attempt needs some too.
        """
        return min(self.bound_s(attempt), max(left_s, 0.0) / 2) * chance

    def bound_s(self, attempt: int) -> float:
        """Most that `delay_s` gives."""
        return min(self.first_s * 2.0 ** min(attempt - 1, 62), self.most_s)

    @staticmethod
    def spent(attempt: int, most: int, now_s: float, deadline_s: float) -> bool:
        """Whether there is no further attempt: as many were made as there may be, or the deadline is over.

        Args:
            attempt: how many were made.
            most: as many as there may be; 0 = no end before the deadline.
            now_s: any clock.
            deadline_s: on the same one; 0 = none.
        """
        return 0 < most <= attempt or 0 < deadline_s <= now_s


class RetryBudget:
    """Tokens for the retries of one key: each successful call puts a share of one in, and time a few.

    A retry takes one out. Where there is none it takes the next one that time will put in, and waits for it: the calls
    of an upstream that fails are bounded, however many orders ask.
    """

    def __init__(self, share: float = 0.2, per_s: float = 1.0, most: float = 10.0) -> None:
        """Full at the start.

        Args:
            share: retries for each successful call. A fifth, as in Finagle.
            per_s: retries that are there without any success, or nothing would ever find out that it is well again.
            most: what the bucket holds, so that hours without failures do not save up a storm. Arbitrary.
        """
        self._share = share
        self._per_s = per_s
        self._most = most
        #: Less than 0: this many retries wait for theirs.
        self.left = most
        self._since_ns = 0

    def succeeded(self, now_ns: int) -> None:
        """A call ended well."""
        self._fill(now_ns)
        self.left = min(self.left + self._share, self._most)

    def take(self, now_ns: int) -> int:
        """Take one out; gives when it is there, `now_ns` or later."""
        self._fill(now_ns)
        self.left -= 1
        return now_ns + int(max(-self.left, 0.0) / self._per_s * _NS)

    def _fill(self, now_ns: int) -> None:
        if self._since_ns:
            gained = max(now_ns - self._since_ns, 0) / _NS * self._per_s
            self.left = min(self.left + gained, self._most)
        self._since_ns = max(now_ns, self._since_ns, 1)


class Retrying:
    """Asked by the thread that an order failed on, told of successes by the owner of the channel."""

    def __init__(self, settings: WorkSettings, totals: Totals, *, stored: bool) -> None:
        """`stored`: a store counts attempts, also those that were retries of Celery's."""
        self._settings = settings
        self._retries_of_keys = retries_of_keys(settings)
        self._totals = totals
        self._stored = stored
        self._random = random.Random()
        self._delay = RetryDelay(settings.task_retry_s, settings.task_retry_s * _RETRY_MOST)
        # Of keys that have retried; one that is forgotten starts from zero.
        self._budgets: OrderedDict[str, RetryBudget] = OrderedDict()
        self._guard = allocate_lock()

    def succeeded(self, key: str) -> None:
        """Count a call of this key that ended well."""
        if key in self._budgets:
            with self._guard:
                self._budget(key).succeeded(time.monotonic_ns())

    def attempts(self, order: Order) -> int:
        """Give how many attempts were made beside Celery's own retries, which Celery bounds."""
        earlier = order.identity[2] if self._stored else 0
        return max(order.attempts - earlier, min(order.attempts, 1))

    def attempts_of(self, order: Order, error: BaseException) -> int:
        """Give how many attempts an order has whose task raised this.

        One: a task that raises is run as often as Celery runs it. More where its key's rule, the task itself or the
        setting says so, or where it knows that nothing was sent.
        """
        if any(isinstance(cause, NotSent) for cause in causes(error)):
            return self._settings.task_attempts
        of_task = getattr(order.request.task, RETRIES, None)
        retries = self._retries_of_keys.get(order.key, self._settings.task_retries if of_task is None else of_task)
        return int(retries) + 1

    def again_ns(self, order: Order, attempts: int, *, writings: int = 0) -> int | None:
        """Give when a failed order is run again; None: its attempts or its deadline do not allow it. From any thread.

        A retry for which its key's budget has nothing left waits until it has.

        Args:
            order: which has failed.
            attempts: as many as there may be.
            writings: how often the result of its call could not be written; 0 = it is to be called. The budget is for
                calls.
        """
        made = self.attempts(order)
        if RetryDelay.spent(made, attempts, time.time(), order.deadline_at):
            return None
        now_ns = time.monotonic_ns()
        remaining_s = order.remaining_s()
        most_s = math.inf if remaining_s is None else remaining_s
        at_ns = now_ns + int(self._delay.delay_s(writings or made, self._random.random(), most_s) * 1e9)
        if not writings:
            with self._guard:
                ready_ns = self._budget(order.key).take(now_ns)
                if ready_ns > at_ns:
                    self._totals.retries_held += 1
                    at_ns = ready_ns
        # The budget may ask for more patience than there is left.
        return None if at_ns - now_ns >= most_s * 1e9 else at_ns

    def _budget(self, key: str) -> RetryBudget:
        budget = self._budgets.get(key)
        if budget is None:
            budget = self._budgets[key] = RetryBudget()
            if len(self._budgets) > UpstreamRule.keys_most:
                self._budgets.popitem(last=False)
        self._budgets.move_to_end(key)
        return budget
