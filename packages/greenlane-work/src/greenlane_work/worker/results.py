"""Ends of orders that Celery's tracer does not see, written down in the result backend.

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
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, Final

from billiard.common import TERM_SIGNAME
from billiard.einfo import ExceptionInfo
from celery import signals, states
from celery.app.task import Context
from celery.platforms import signals as numbers_of_signals
from celery.utils.functional import maybe_list
from celery.worker import state
from kombu.serialization import loads, prepare_accept_content

from greenlane_work.order import Order, Run, running
from greenlane_work.worker.adapter import Revoked, away

__all__ = ["TRIED_NS", "Results"]

_log = logging.getLogger("greenlane.work")

#: Results that are written at the same time, and those that wait for it: the backend may be away for hours. Arbitrary.
_THREADS: Final = 4
_WAITING_MOST: Final = 10_000
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


class Results:
    """Writes results down on threads (or greenlets) of its own: a result backend that is away stops no order.

    One that refuses is tried again for 30 s, a Redis that does not answer is waited for for 120 s
    (`redis_socket_timeout`), and what hears of a failure (`on_failure`, receivers of `task_failure`) may hang. So there
    are a few of them, and nobody waits for them without end: see `Effects`.
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

    def failed(self, order: Order, run: Run | None, error: BaseException, then: Callable[[], object]) -> None:
        """Write it down soon, and call `then` on that thread, also where the backend refuses it; never blocks.

        `run`: the one that failed; given up, it may still be at it, and write its failure down itself.
        """
        if order.request is None:
            self._put(order.id, functools.partial(_mark_unread, self.app, order.delivery.message, error), then)
        else:
            self._put(order.id, functools.partial(_mark_failed, order, run or Run(order), error), then)

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


def _mark_failed(order: Order, run: Run, error: BaseException, write: Write) -> None:
    # What hears of the failure (errbacks, a chord) is published from here, and waits for the broker.
    running.set(Run(order, over=True))
    request = order.request
    task, context = request.task, request._context
    try:
        raise error
    except BaseException:
        info = ExceptionInfo()
    # Its run was given up, and is still at it; what it calls may hang.
    if not run.writing.acquire(timeout=_WRITING_S):
        return
    failure_written = run.failure_written
    run.writing.release()
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
    running.set(Run(order, over=True))
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
