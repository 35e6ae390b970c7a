"""The CPU work of tasks under permits: each run of an order is a job, from the order's publication on.

Recording needs nothing from here: `greenlane record` listens to Celery's own signals.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Protocol

from greenlane import bootstrap
from greenlane.settings import Settings
from greenlane.tasks.order import Order

__all__ = ["Jobs", "PermittedJobs"]


class Jobs(Protocol):
    """Opens and closes a job around a run, on the run's own thread."""

    def open(self, order: Order) -> bool:
        """Begin; False = there is none, do not close."""

    def close(self) -> object:
        """End it."""


class PermittedJobs:
    """Jobs of this process's permits. Starts Greenlane in it.

    Off unless `mode` is set: with some hundred threads of short bursts permits were measured to cost more CPU than they
    save. With them, a blocking socket call of a job whose soft limit or deadline has passed raises at once; without,
    the limit is met when the call returns.
    """

    def __init__(self, settings: Settings) -> None:
        if "deadline_cancel" not in settings.origins:
            settings = dataclasses.replace(settings, deadline_cancel=True)
        if "mode" not in settings.origins:
            settings = dataclasses.replace(settings, mode="off")
        running = bootstrap.start(settings, host="celery")
        self._open = running.open_task
        self.close = running.close

    def open(self, order: Order) -> bool:
        """See Jobs."""
        due_ns = order.due_ns
        remaining_s = order.remaining_s()
        if remaining_s is not None:
            at_ns = time.monotonic_ns() + max(1, int(remaining_s * 1e9))
            due_ns = min(due_ns, at_ns) if due_ns else at_ns
        return self._open(order.name, order.arrival_ns, due_ns)
