"""What Celery learns of an order beside its tracer: request tables, events, and the results of dead orders.

A death that Celery's tracer does not see (a deadline, a hard limit, a rejection) is written down as a failure of its
task, as Celery itself would: waiters for the result, and a chord that counts it, are informed. So is that of a
message that became no order, as far as it can be read: its task's id is in its headers, its chord in its body.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any, Final

from billiard.einfo import ExceptionInfo
from celery import signals
from celery.app.task import Context
from celery.worker.state import task_ready, task_reserved
from kombu.serialization import loads, prepare_accept_content

from greenlane_work.order import Order, running

__all__ = ["Results", "forgotten", "reserved", "scheduled", "tell"]

_log = logging.getLogger("greenlane.work")

#: What may be read of a body that the app does not accept: these run nothing.
_PLAIN: Final = prepare_accept_content(("json", "yaml", "msgpack"))
#: What a body holds beside the arguments: callbacks, errbacks, chain and chord.
_WAITING: Final = ("callbacks", "errbacks", "chain", "chord")


def forgotten(order: Order, *, successful: bool = False) -> None:
    """Let Celery's tables forget the request of an order that has left this worker."""
    if order.request is not None:
        task_ready(order.request, successful=successful)


def reserved(order: Order) -> None:
    """Let Celery's tables have an order that waits for its next attempt among those that wait."""
    task_ready(order.request)
    task_reserved(order.request)


def scheduled(orders: Iterator[Order]) -> list[dict[str, object]]:
    """Give the orders that wait for their time or for their next attempt, as `inspect scheduled` shows them."""
    now_s, now_ns = time.time(), time.monotonic_ns()
    return [
        {
            "eta": datetime.fromtimestamp(now_s + (order.not_before_ns - now_ns) / 1e9, UTC).isoformat(),
            "priority": 6,
            "request": order.request.info(),
        }
        for order in orders
        if order.not_before_ns
    ]


def tell(request: Any, event: str, **fields: object) -> None:
    """Send one of Celery's events. A failure does not affect the order."""
    try:
        request.send_event(event, **fields)
    except Exception:
        _log.debug("the event %s could not be sent", event, exc_info=True)


class Results:
    """Writes failures down on a thread (or greenlet) of its own: a result backend that is away stops no order."""

    def __init__(self) -> None:
        self._failed: SimpleQueue[tuple[Order, BaseException, Callable[[], object]] | None] = SimpleQueue()
        self._started = False
        # Set by the step: Celery's app.
        self.app: Any = None

    def failed(self, order: Order, error: BaseException, then: Callable[[], object]) -> None:
        """Write it down soon, and call `then` on that thread, also where the backend refuses it; never blocks."""
        if not self._started:
            self._started = True
            threading.Thread(target=self._run, name="greenlane-results", daemon=True).start()
        self._failed.put((order, error, then))

    def stop(self) -> None:
        """End after what is being written."""
        self._failed.put(None)

    def _run(self) -> None:
        while (item := self._failed.get()) is not None:
            order, error, then = item
            try:
                if order.request is None:
                    _mark_unread(self.app, order.delivery.message, error)
                else:
                    # What hears of the failure (errbacks, a chord) is published from here, and waits for the broker.
                    order.over = True
                    running.set(order)
                    _mark_failed(order.request, error)
            except Exception as refused:
                _log.warning("the failure of order %s could not be written down: %r", order.id, refused)
            then()


def _mark_failed(request: Any, error: BaseException) -> None:
    task, context = request.task, request._context
    try:
        raise error
    except BaseException:
        info = ExceptionInfo()
    task.backend.mark_as_failure(request.id, error, info.traceback, request=context, store_result=request.store_errors)
    task.on_failure(error, request.id, request.args, request.kwargs, info)
    signals.task_failure.send(
        sender=task,
        task_id=request.id,
        exception=error,
        args=request.args,
        kwargs=request.kwargs,
        traceback=error.__traceback__,
        einfo=info,
    )


def _mark_unread(app: Any, message: Any, error: BaseException) -> None:
    context = _context(message)
    if context is None:
        return
    task = app.tasks.get(context.task)
    stores = app.conf.task_store_errors_even_if_ignored or not context.ignore_result
    backend = app.backend if task is None else task.backend
    backend.mark_as_failure(context.id, error, request=context, store_result=stores)


def _context(message: Any) -> Any:
    """Give what Celery's backends want to know of a message that became no order; None = it names no task's id."""
    headers = message.headers
    if not isinstance(headers, dict) or not isinstance(headers.get("id"), str):
        return None
    context = Context({"task": None, **headers}, delivery_info=message.delivery_info or {})
    context.reply_to = (message.properties or {}).get("reply_to")
    context.correlation_id = (message.properties or {}).get("correlation_id")
    with contextlib.suppress(Exception):
        _, _, beside = loads(message.body, message.content_type, message.content_encoding, accept=_PLAIN)
        context.update({name: beside[name] for name in _WAITING if name in beside})
    return context
