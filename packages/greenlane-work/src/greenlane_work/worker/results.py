"""What Celery learns of an order beside its tracer: request tables, events, and the results of dead orders.

A death that Celery's tracer does not see (a deadline, a hard limit, a rejection) is written down as a failure of its
task, as Celery itself would: waiters for the result, and a chord that counts it, are informed. So is that of a
message that became no order, as far as it can be read: its task's id is in its headers, its chord in its body. And so
is that an order was revoked, or has expired.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any, Final

from billiard.common import TERM_SIGNAME
from billiard.einfo import ExceptionInfo
from celery import signals, states
from celery.app.task import Context
from celery.platforms import signals as numbers_of_signals
from celery.utils.functional import maybe_list
from celery.utils.imports import symbol_by_name
from celery.worker import state
from celery.worker.state import task_ready, task_reserved
from kombu.serialization import loads, prepare_accept_content

from greenlane_work.order import Order, running
from greenlane_work.worker.own_retry import away

__all__ = ["TRIED_NS", "Results", "forgotten", "reserved", "revoked_elsewhere", "scheduled", "tell"]

_log = logging.getLogger("greenlane.work")

#: Results that are written at the same time, and those that wait for it: the backend may be away for hours. Arbitrary.
_THREADS: Final = 4
_WAITING_MOST: Final = 10_000
#: What Celery says of a request that it has revoked: why, whether its run is stopped, by which signal, whether it had
#: expired.
Revoked = tuple[str, bool, Any, bool]
#: States of orders that a revoke keeps from beginning.
_NOT_BEGUN: Final = (states.PENDING, states.RECEIVED, states.RETRY, states.REJECTED)
#: A result that the backend cannot take is tried again for this long. Arbitrary: one that is restarted is back by then.
TRIED_NS: Final = 30_000_000_000
#: Between two tries. Arbitrary.
_PAUSE_S: Final = 0.5
#: So long a results thread waits for a run that writes its failure down itself. Arbitrary.
_WRITING_S: Final = 5.0
#: What may be read of a body that the app does not accept: these run nothing.
_PLAIN: Final = prepare_accept_content(("json", "yaml", "msgpack"))
#: What a body holds beside the arguments: callbacks, errbacks, chain and chord.
_BESIDE: Final = ("callbacks", "errbacks", "chain", "chord")

#: Calls a backend's method with these arguments, more than once where the backend is away.
Write = Callable[..., None]
#: Writes the end of an order down by it.
Mark = Callable[[Write], object]


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


def revoked_elsewhere(task: Any, discarded: Callable[[Any], object], stopped: Callable[[Any, Revoked], object]) -> None:
    """Let this task's requests write nothing down themselves when they are found revoked or expired. Idempotent.

    Celery does so where it looks, which is on the owner: a result backend that does not answer would stop it each time,
    and one that cannot be reached would look like a lost connection to the broker.

    Args:
        discarded: called with a request that Celery has found so on receipt, before there is an order.
        stopped: called with a request whose run `revoke(terminate=True)` stops, and what is to be told of it.
    """
    kind: Any = symbol_by_name(task.Request)
    if hasattr(kind, "greenlane_order"):
        return

    class Request(kind):  # type: ignore[misc] # Celery has no types
        #: It has become an order: the flow looks then.
        greenlane_order = False
        #: Why it is not begun, as its result is to say; "" = it is, or that is being written down.
        greenlane_revoked = ""
        #: Done when it is written down that its run was stopped; None = it was not stopped.
        greenlane_stopped: Future[None] | None = None

        def _announce_revoked(self, reason: str, terminated: bool, signum: Any, expired: bool) -> None:
            self._already_revoked = True
            task_ready(self)
            tell(self, "task-revoked", terminated=terminated, signum=signum, expired=expired)
            if terminated:
                stopped(self, (reason, terminated, signum, expired))
                return
            self.greenlane_revoked = reason
            if not self.greenlane_order:
                discarded(self)

    task.Request = Request


class Results:
    """Writes results down on threads (or greenlets) of its own: a result backend that is away stops no order.

    One that refuses is tried again for 30 s, a Redis that does not answer is waited for for 120 s
    (`redis_socket_timeout`), and what hears of a failure (`on_failure`, receivers of `task_failure`) may hang. So there
    are a few of them, and nobody waits for them without end: see `Settlement`.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[str, int, Mark, Callable[[], object]] | None] = SimpleQueue()
        self._threads = 0
        # False: the worker ends, and what cannot be written now never will be.
        self.patient = True
        # Set by the flow: whether a task's call is over, so that it is too late to revoke it.
        self.done: Callable[[str], bool] = lambda _number: False
        # Set by the step: Celery's app.
        self.app: Any = None

    def failed(self, order: Order, error: BaseException, then: Callable[[], object]) -> None:
        """Write it down soon, and call `then` on that thread, also where the backend refuses it; never blocks."""
        if order.request is None:
            self._put(order.id, functools.partial(_mark_unread, self.app, order.delivery.message, error), then)
        else:
            self._put(order.id, functools.partial(_mark_failed, order, error), then)

    def revoked(self, order: Order, then: Callable[[], object]) -> None:
        """Likewise that it was revoked, or has expired."""
        self._put(order.id, functools.partial(_mark_unbegun, order), then)

    def stopped(self, request: Any, said: Revoked) -> None:
        """Likewise that its run was stopped, before the run has ended: its order waits for that then."""
        request.greenlane_stopped = written = Future[None]()
        self._put(request.id, functools.partial(_mark_revoked, request, said), lambda: written.set_result(None))

    def revoke(
        self, controlled: Any, task_id: Any, terminate: bool = False, signal: Any = None, **_options: Any
    ) -> dict[str, str]:
        """Celery's remote command of this name, which writes down on the owner that what does not run is revoked."""
        numbers = {number for number in maybe_list(task_id) or () if not self.done(number)}
        state.revoked.update(numbers)
        known = {number: state.requests[number] for number in numbers if number in state.requests}
        for number in numbers:
            request = known.get(number)
            if request not in state.active_requests:
                self._put(number, functools.partial(_mark_flagged, controlled.app, number, request), _nothing)
        _log.info("tasks flagged as revoked: %s", ", ".join(numbers))
        if not terminate:
            return {"ok": f"tasks {numbers} flagged as revoked"}
        for request in known.values():
            request.terminate(controlled.consumer.pool, signal=numbers_of_signals.signum(signal or TERM_SIGNAME))
        return {"ok": f"terminate: {', '.join(known) or 'tasks unknown'}"}

    def terminate(self, controlled: Any, signal: Any, task_id: Any, **_options: Any) -> dict[str, str]:
        """Likewise."""
        return self.revoke(controlled, task_id, terminate=True, signal=signal)

    def stop(self) -> None:
        """End after what waits to be written."""
        self._waiting.put(None)

    def _put(self, number: str, mark: Mark, then: Callable[[], object]) -> None:
        if self._waiting.qsize() >= _WAITING_MOST:
            _log.warning("the end of order %s is not written down: too many wait for the result backend", number)
            then()
            return
        if self._threads < _THREADS:
            self._threads += 1
            threading.Thread(target=self._run, name="greenlane-results", daemon=True).start()
        self._waiting.put((number, time.monotonic_ns() + TRIED_NS, mark, then))

    def _run(self) -> None:
        while (item := self._waiting.get()) is not None:
            number, until_ns, mark, then = item
            try:
                mark(functools.partial(self._write, until_ns))
            except BaseException as refused:  # a task's `on_failure` may raise whatever it likes
                _log.warning("the end of order %s could not be written down: %r", number, refused)
            running.set(None)
            then()
        self._waiting.put(None)  # for the next thread

    def _write(self, until_ns: int, mark: Callable[..., object], *args: object, **options: object) -> None:
        while True:
            try:
                mark(*args, **options)
                return
            except Exception as refused:
                if not self.patient or time.monotonic_ns() >= until_ns or not away(self.app, refused):
                    raise
            time.sleep(_PAUSE_S)


def _mark_failed(order: Order, error: BaseException, write: Write) -> None:
    # What hears of the failure (errbacks, a chord) is published from here, and waits for the broker.
    order.over = True
    running.set(order)
    request = order.request
    task, context = request.task, request._context
    try:
        raise error
    except BaseException:
        info = ExceptionInfo()
    # Its run was given up, and is still at it; what it calls may hang.
    if not order.writing.acquire(timeout=_WRITING_S):
        return
    failure_written = order.failure_written
    order.writing.release()
    if not failure_written:
        mark = task.backend.mark_as_failure
        write(mark, request.id, error, info.traceback, request=context, store_result=request.store_errors)
    if failure_written is not None:
        return  # Celery's tracer has gone on
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


def _mark_unbegun(order: Order, write: Write) -> None:
    order.over = True
    running.set(order)
    reason = order.request.greenlane_revoked
    _mark_revoked(order.request, (reason, False, None, reason == "expired"), write)


def _mark_revoked(request: Any, said: Revoked, write: Write) -> None:
    reason, terminated, signum, expired = said
    task, context = request.task, request._context
    write(task.backend.mark_as_revoked, request.id, reason, request=context, store_result=request.store_errors)
    signals.task_revoked.send(task, request=context, terminated=terminated, signum=signum, expired=expired)


def _mark_flagged(app: Any, number: str, request: Any, write: Write) -> None:
    # Tasks may have backends of their own. What runs or has ended, here or elsewhere, keeps its state.
    backend = app.backend if request is None else request.task.backend

    def mark() -> None:
        if backend.get_state(number) in _NOT_BEGUN:
            backend.mark_as_revoked(number, reason="revoked", store_result=True)

    write(mark)


def _nothing() -> None:
    pass


def _mark_unread(app: Any, message: Any, error: BaseException, write: Write) -> None:
    context = _context(message)
    if context is None:
        return
    task = app.tasks.get(context.task)
    stores = app.conf.task_store_errors_even_if_ignored or not context.ignore_result
    backend = app.backend if task is None else task.backend
    write(backend.mark_as_failure, context.id, error, request=context, store_result=stores)


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
        context.update({name: beside[name] for name in _BESIDE if name in beside})
    return context
