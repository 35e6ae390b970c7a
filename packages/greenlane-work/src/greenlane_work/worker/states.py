"""The state of an order's task in a result backend that may be away.

Celery takes each error of the backend for the task's own: the order would be dead though it is only tried again, or
done. Where Celery cannot write down that a task has ended well it writes down that it has failed: its errbacks are
called, and its chord fails.
"""

from __future__ import annotations

import functools
import logging
from typing import Any, Final

from celery.backends.base import DisabledBackend
from celery.states import RETRY, STARTED

from greenlane_work.order import Order, Stage, given_up, running

__all__ = ["bear_its_absence"]

_log = logging.getLogger("greenlane.work")

_BORNE: Final = "__greenlane_borne__"
#: Of an order that is dead all that is left is to be written.
_OVER: Final = (Stage.LEAVING, Stage.ENDED)
#: Nobody waits for them.
_PASSING: Final = (STARTED, RETRY)


def bear_its_absence(backend: Any) -> None:
    """Let an order's run bear that this class of result backends takes no state. Idempotent."""
    store_result, mark_as_done = backend.store_result, backend.mark_as_done
    mark_as_failure = backend.mark_as_failure
    if hasattr(mark_as_done, _BORNE):
        return

    @functools.wraps(store_result)
    def stores(self: Any, task_id: str, result: Any, state: str, *args: Any, **options: Any) -> Any:
        order = _order(task_id)
        if state not in _PASSING or order is None:
            return store_result(self, task_id, result, state, *args, **options)
        if given_up(order) or order.request._already_revoked:
            return result  # The next run writes its own; that it was revoked is the last word.
        try:
            return store_result(self, task_id, result, state, *args, **options)
        except Exception as error:
            _log.warning("the state %s of the task %s could not be written down: %r", state, task_id, error)
            return result

    @functools.wraps(mark_as_done)
    def does(self: Any, task_id: str, *args: Any, **options: Any) -> Any:
        order = _order(task_id)
        if order is None:
            return mark_as_done(self, task_id, *args, **options)
        order.followed = True  # Celery publishes what follows first.
        done = mark_as_done(self, task_id, *args, **options)
        order.result_written = not given_up(order)
        return done

    @functools.wraps(mark_as_failure)
    def fails(self: Any, task_id: str, exc: BaseException, *args: Any, **options: Any) -> None:
        order = _order(task_id)
        if order is None:
            mark_as_failure(self, task_id, exc, *args, **options)
            return
        if order.kept is not None or order.retried:
            raise exc  # for the flow: the call is over, and what could not be written or published is tried again
        if given_up(order) or order.request._already_revoked:
            return  # The next run writes its own; that it was revoked is the last word.
        with order.writing:
            try:
                mark_as_failure(self, task_id, exc, *args, **options)
                order.failure_written = True
            except Exception as error:  # raised, it would be another failure to Celery; it is written with the death
                order.failure_written = False
                _log.warning("the failure of the task %s could not be written down: %r", task_id, error)

    setattr(does, _BORNE, True)
    backend.mark_as_done, backend.mark_as_failure = does, fails
    if not issubclass(backend, DisabledBackend):  # It writes nothing, so nothing can be away.
        backend.store_result = stores


def _order(task_id: str) -> Order | None:
    """Give the order whose run this is, if that is its task."""
    order = running.get()
    runs = order is not None and order.request.id == task_id and order.stage not in _OVER
    return order if runs else None
