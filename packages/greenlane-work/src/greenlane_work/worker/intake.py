"""How many messages the broker may deliver: as many as wait here for their key or their time, and as may run."""

from __future__ import annotations

from typing import Any, Final

from greenlane_work.settings import WorkSettings
from greenlane_work.worker.parking import Parking

__all__ = ["Intake"]

#: Orders that may wait here for their time beside those that are parked, and steps of the prefetch count. Arbitrary.
_TIMED_MOST: Final = 1_000
_STEP: Final = 32


class Intake:
    """The prefetch count of the consumer."""

    def __init__(self, settings: WorkSettings, parked: Parking) -> None:
        self._settings = settings
        self._parked = parked
        # Set by the step: Celery's consumer, and how many orders are received beyond those that run.
        self.consumer: Any = None
        self.ahead = 0
        # Of the present connection. The broker takes another count while it delivers: quorum queues do not.
        self._qos: Any = None
        self._grows = True

    @property
    def full(self) -> bool:
        """As many orders wait for their time as may."""
        return self._parked.between >= (_TIMED_MOST if self._grows else self.ahead // 2)

    def make_room(self, leaving: int) -> None:
        """Receive more while a slot is free: what waits here then waits for its key or its time, not for a slot.

        So a slow key's orders keep nobody's from being received, and an order that would wait for a slot waits in its
        queue: other workers may take it, its priority counts, and the queue's length counts it.

        Args:
            leaving: orders that the broker has delivered and that are neither parked nor run.
        """
        qos = self.consumer.qos if self.consumer is not None else None
        if qos is not self._qos and qos is not None:
            self._qos, consumer = qos, self.consumer
            self._grows = bool(consumer.qos_global or consumer.connection.transport.driver_type != "amqp")
        if qos is None or not self._grows:
            return
        slots, parked = self._settings.task_slots, self._parked
        least, wanted = slots + self.ahead, len(parked) + leaving
        if parked.running < slots:
            wanted += max(1, self.ahead)
        wanted = min(wanted, self._settings.parked_most + _TIMED_MOST + least)
        target = least + max(0, -((least - wanted) // _STEP * _STEP))
        more = target - qos.value
        if more > 0 or more <= -2 * _STEP or (more and target == least):
            (qos.increment_eventually if more > 0 else qos.decrement_eventually)(abs(more))
