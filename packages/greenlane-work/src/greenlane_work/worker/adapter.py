"""Where the worker meets Celery's own bookkeeping: its tracer, requests, request tables, events and result backends.

Written against Celery 5.6 and 5.7; what is replaced or read of it beyond its documented interface stands here.

- A task's states: Celery takes each error of a result backend for the task's own. The order would be dead though it is
  only tried again, or done; and its errbacks would be called though it has ended well.
- What a task publishes when its call is over (`self.retry`, the next of a chain, a link, a chord's body): where the
  broker does not take it Celery rejects the message, or writes down that the task has failed. Here the task waits in
  its place: to run it once more would repeat its call, and nothing else could be acknowledged in that place either.
- Requests that are revoked: Celery writes that down on the owner of the channel.
"""

from __future__ import annotations

import functools
import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

from amqp.exceptions import MessageNacked
from celery.app.trace import fast_trace_task, trace_task_ret
from celery.backends.base import DisabledBackend
from celery.exceptions import BackendStoreError, Ignore, Reject, Retry
from celery.states import RETRY, STARTED
from celery.utils.imports import symbol_by_name
from celery.worker.state import task_ready, task_reserved

from greenlane_work.order import Ended, Leaving, Order, Run, running

__all__ = [
    "trace", "forgotten", "reserved", "scheduled", "tell", "Revoked", "revoked_elsewhere", "bear_its_absence", "away",
    "Unpublished", "wait_for_the_broker", "followers_wait", "chords_fire",
]  # fmt: skip

_log = logging.getLogger("greenlane.work")

#: Between two attempts to publish. Arbitrary: a broker is back within some seconds.
_PAUSE_S: Final = 0.5
#: Place of `task_id` among the arguments of `Celery.send_task`, behind the task's name.
_TASK_ID: Final = 4
#: Marks what is replaced already.
_REPLACED: Final = "__greenlane_replaced__"
#: What a database (PEP 249) or Redis says that takes no write now; by name, since neither client needs to be installed.
_LATER: Final = frozenset(
    {"OperationalError", "InterfaceError", "ReadOnlyError", "OutOfMemoryError", "ClusterDownError", "TryAgainError"}
)
#: Such answers of Redis that its client has no class for; in a pipeline the command's name precedes them.
_LATER_CODE: Final = re.compile(r"(?:^|: )(?:BUSY|MISCONF|NOREPLICAS)\b")
#: Nobody waits for these states.
_PASSING: Final = (STARTED, RETRY)

#: What Celery says of a request that it has revoked: why, whether its run is stopped, by which signal, whether it had
#: expired.
Revoked = tuple[str, bool, Any, bool]


# --- an order's request -----------------------------------------------------------------------------------------------


def trace(request: Any) -> tuple[Any, Any, Any]:
    """Run a request by Celery's tracer; gives (failed, value or error, seconds)."""
    traced: tuple[Any, Any, Any] = (fast_trace_task if request.app.use_fast_trace_task else trace_task_ret)(
        request.type,
        request.id,
        request.request_dict,
        request.body,
        request.content_type,
        request.content_encoding,
        app=request.app,
    )
    return traced


def forgotten(order: Order, *, successful: bool = False) -> None:
    """Let Celery's tables forget the request of an order that has left this worker."""
    if order.request is not None:
        task_ready(order.request, successful=successful)


def reserved(order: Order) -> None:
    """Let Celery's tables have an order that waits for its next attempt among those that wait."""
    task_ready(order.request)
    task_reserved(order.request)


def scheduled(waiting: Iterable[tuple[Order, int]]) -> list[dict[str, object]]:
    """Give the orders that wait for their time or for their next attempt, as `inspect scheduled` shows them."""
    now_s, now_ns = time.time(), time.monotonic_ns()
    return [
        {
            "eta": datetime.fromtimestamp(now_s + (at_ns - now_ns) / 1e9, UTC).isoformat(),
            "priority": 6,
            "request": order.request.info(),
        }
        for order, at_ns in waiting
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


# --- its states -------------------------------------------------------------------------------------------------------


def bear_its_absence(backend: Any) -> None:
    """Let an order's run bear that this class of result backends takes no state. Idempotent."""
    if hasattr(backend.mark_as_done, _REPLACED):
        return
    _replace(backend, "mark_as_done", _marks_as_done)
    _replace(backend, "mark_as_failure", _marks_as_failure)
    if not issubclass(backend, DisabledBackend):  # It writes nothing.
        _replace(backend, "store_result", _stores_result)


def _replace(holder: Any, name: str, make: Callable[[Any], Any]) -> None:
    """Put what is made of a function in its place, once."""
    original = getattr(holder, name)
    if not hasattr(original, _REPLACED):
        replaced = functools.wraps(original)(make(original))
        setattr(replaced, _REPLACED, True)
        setattr(holder, name, replaced)


def _stores_result(store_result: Any) -> Any:
    def stores(self: Any, task_id: str, result: Any, state: str, *args: Any, **options: Any) -> Any:
        run = _run(task_id)
        if state not in _PASSING or run is None:
            return store_result(self, task_id, result, state, *args, **options)
        if run.abandoned or run.order.request._already_revoked:
            return result  # The next run writes its own; that it was revoked is the last word.
        try:
            return store_result(self, task_id, result, state, *args, **options)
        except Exception as error:
            _log.warning("the state %s of the task %s could not be written down: %r", state, task_id, error)
            return result

    return stores


def _marks_as_done(mark_as_done: Any) -> Any:
    def does(self: Any, task_id: str, *args: Any, **options: Any) -> Any:
        run = _run(task_id)
        if run is None:
            return mark_as_done(self, task_id, *args, **options)
        if run.done is not None:  # Celery publishes what follows first.
            run.done = replace(run.done, followed=True)
        done = mark_as_done(self, task_id, *args, **options)
        run.result_written = not run.abandoned
        return done

    return does


def _marks_as_failure(mark_as_failure: Any) -> Any:
    def fails(self: Any, task_id: str, exc: BaseException, *args: Any, **options: Any) -> Any:
        run = _run(task_id)
        if run is None:
            return mark_as_failure(self, task_id, exc, *args, **options)
        if run.done is not None or run.retried:
            raise exc  # for the flow: the call is over, and what could not be written or published is tried again
        if run.abandoned or run.order.request._already_revoked:
            return None  # The next run writes its own; that it was revoked is the last word.
        with run.writing:
            try:
                mark_as_failure(self, task_id, exc, *args, **options)
                run.failure_written = True
            except Exception as error:  # raised, it would be another failure to Celery; it is written with the death
                run.failure_written = False
                _log.warning("the failure of the task %s could not be written down: %r", task_id, error)

    return fails


def _run(task_id: str) -> Run | None:
    """Give the run that calls, if this is its task. Of an order that is dead all that is left is to be written."""
    run = running.get()
    runs = run is not None and run.order.request.id == task_id and not isinstance(run.order.state, Leaving | Ended)
    return run if runs else None


def away(app: Any, reason: BaseException) -> bool:
    """Whether the broker, or the result backend, may take later what it does not take now."""
    if isinstance(reason, BackendStoreError):
        reason = reason.__cause__ or reason  # Celery has tried a few times
    names = {kind.__name__ for kind in type(reason).__mro__}
    if isinstance(reason, (OSError, MessageNacked)) or names & _LATER:
        return True
    if "ResponseError" in names and _LATER_CODE.search(str(reason)):
        return True
    errors = (*app.connection_for_write().connection_errors, *getattr(app.backend, "connection_errors", ()))
    return isinstance(reason, errors) and not isinstance(reason, KeyError)  # kombu counts it among those of Redis


# --- what it publishes ------------------------------------------------------------------------------------------------


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
        run = running.get()
        told = False
        while True:
            if run is not None and run.abandoned:
                raise Ignore  # the next run has its own
            try:
                return original(*args, **kwargs)
            except Retry:
                if run is not None:
                    run.retried = True
                raise
            except Reject as error:
                if run is None or not isinstance(error.reason, Exception):
                    raise
                if not away(task.app, error.reason):
                    raise Unpublished(repr(error.reason)) from error.reason
                if not told:
                    told = True
                    _log.warning(
                        "order %s waits for the broker to take its next attempt: %r", run.order.id, error.reason
                    )
            sleep(_PAUSE_S)

    task.retry = retry


def followers_wait(app: Any, sleep: Callable[[float], object] = time.sleep) -> None:
    """Let what follows an order wait: what is published in its run when its task's function has ended. Idempotent.

    However often it is published, it has one id: the store lets it be called once. A hard limit ends the wait.
    """

    def waits(original: Any) -> Any:
        def send_task(name: str, *args: Any, **options: Any) -> Any:
            run = running.get()
            if run is None or not run.over:
                return original(name, *args, **options)
            told = False
            if len(args) < _TASK_ID:
                options["task_id"] = options.get("task_id") or str(uuid.uuid4())
            while True:
                try:
                    return original(name, *args, **options)
                except Exception as error:
                    if run.abandoned or not away(app, error):
                        raise
                    if not told:
                        told = True
                        _log.warning("order %s waits for the broker to take what follows it: %r", run.order.id, error)
                sleep(_PAUSE_S)

        return send_task

    _replace(app, "send_task", waits)


def chords_fire(app: Any, sleep: Callable[[float], object] = time.sleep) -> None:
    """Let an order that comes again wait for the claim on its chord's body. Idempotent; for results in Redis.

    From 5.7 on the worker that counts the last member claims the body, for some 20 s, and then publishes it. Where it
    is killed between the two, its order comes again before that time is over, and Celery leaves the body to the dead.
    """
    if not hasattr(type(app.backend), "_chord_part_return_script"):
        return

    def waits(original: Any) -> Any:
        def on_chord_part_return(self: Any, request: Any, state: Any, result: Any, **options: Any) -> None:
            run, waited = running.get(), False
            while True:
                original(self, request, state, result, **options)
                if run is None or not run.order.may_be_repeated or not request.group:
                    return
                claim = self.client.get(self.get_key_for_group(request.group, ".c"))
                if claim in (b"done", "done") or (claim is None and not waited):
                    return
                # Somebody has it; or had it until this moment, and then it may be ours now.
                waited = claim is not None
                if waited:
                    sleep(_PAUSE_S)

        return on_chord_part_return

    _replace(type(app.backend), "on_chord_part_return", waits)
