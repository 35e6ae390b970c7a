"""Orders with a time before which they must not begin (Celery's `eta`, `countdown`): parked as between two attempts.

Celery holds each in a timer of its own and raises the prefetch count by one for it: without bound, unknown to whoever
counts parked orders, and on a channel that RabbitMQ closes after 30 minutes. Here they count as parked, and what has no
room or has long to wait goes back to the broker meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Strategies"]


class Strategies:
    """A consumer as Celery's strategy of a task sees it, but for orders that wait.

    Args:
        consumer: Celery's; asked for everything else.
        receive: takes a request and when it may begin, monotonic ns.
    """

    def __init__(self, consumer: Any, receive: Callable[[Any, int], object]) -> None:
        self._consumer = consumer
        self._receive = receive
        # A strategy calls `timer.call_at` and, before it, `qos.increment_eventually`.
        self.timer = self
        self.qos = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._consumer, name)

    def increment_eventually(self, *_arguments: Any) -> None:
        """An order that waits is one of those that the prefetch count has room for."""

    def call_at(self, eta_s: float, call: Callable[..., Any], arguments: tuple[Any, ...], priority: int = 0) -> Any:
        """Celery's timer, on its clock, monotonic seconds. A task with a rate limit waits there as it always did."""
        if call == self._consumer.apply_eta_task:
            self._receive(arguments[0], int(eta_s * 1e9))
            return None
        self._consumer.qos.increment_eventually()
        return self._consumer.timer.call_at(eta_s, call, arguments, priority=priority)
