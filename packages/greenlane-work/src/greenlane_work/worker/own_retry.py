"""A task's own `self.retry` while the broker is away: it waits for the broker, where Celery throws the order away.

Celery publishes the next attempt from within the task and, where that fails, rejects the message for good. Here the
task waits in its place until its copy is confirmed. To run it once more instead would repeat its call; and while the
broker is away nothing else could be acknowledged or received in that place either.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import Any, Final

from amqp.exceptions import MessageNacked
from celery.exceptions import Reject
from kombu.exceptions import OperationalError

from greenlane_work.order import running

__all__ = ["Unpublished", "away", "wait_for_the_broker"]

_log = logging.getLogger("greenlane.work")

#: Between two attempts to publish. Arbitrary: a broker is back within some seconds.
_PAUSE_S: Final = 0.5


class Unpublished(Exception):
    """The next attempt that a task asked for can never be published: its arguments, or its queue, do not allow it."""


def wait_for_the_broker(task: Any, sleep: Callable[[float], object] = time.sleep) -> None:
    """Let this task's `retry` wait, where it is called by an order's run.

    The order's time limits hold meanwhile. A confirmation that is lost with its connection means two copies of one
    attempt: the store lets one of them be called.
    """
    original = task.retry

    @functools.wraps(original)
    def retry(*args: Any, **kwargs: Any) -> Any:
        order = running.get()
        told = False
        while True:
            try:
                return original(*args, **kwargs)
            except Reject as error:
                if order is None or not isinstance(error.reason, Exception):
                    raise
                if not away(task, error.reason):
                    raise Unpublished(repr(error.reason)) from error.reason
                if not told:
                    told = True
                    _log.warning("order %s waits for the broker to take its next attempt: %r", order.id, error.reason)
            sleep(_PAUSE_S)

    task.retry = retry


def away(task: Any, reason: BaseException) -> bool:
    """Whether the broker may take later what it does not take now."""
    if isinstance(reason, (OperationalError, OSError, MessageNacked)):
        return True
    return isinstance(reason, task.app.connection_for_write().connection_errors)
