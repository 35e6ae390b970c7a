"""What a task publishes when its call is over waits for the broker: its next attempt, and what follows it.

Celery publishes the next attempt (`self.retry`) from within the task and, where that fails, rejects the message for
good. Where the next of a chain, a link or a chord's body cannot be published it writes down that the task, or the
chord, has failed, though the call went through. Here the task waits in its place until the broker has confirmed it. To
run it once more instead would repeat its call; and while the broker is away nothing else could be acknowledged or
received in that place either.
"""

from __future__ import annotations

import functools
import logging
import re
import time
import uuid
from collections.abc import Callable
from typing import Any, Final

from amqp.exceptions import MessageNacked
from celery.exceptions import BackendStoreError, Ignore, Reject, Retry

from greenlane_work.order import given_up, running

__all__ = ["Unpublished", "away", "chords_fire", "followers_wait", "named", "wait_for_the_broker"]

_log = logging.getLogger("greenlane.work")

#: Between two attempts to publish. Arbitrary: a broker is back within some seconds.
_PAUSE_S: Final = 0.5
#: Place of `task_id` among the arguments of `Celery.send_task`, behind the task's name.
_TASK_ID: Final = 4
_WAITS: Final = "__greenlane_waits__"
#: What a database (PEP 249) or Redis says that takes no write now; by name, since neither client needs to be installed.
_LATER: Final = frozenset(
    {"OperationalError", "InterfaceError", "ReadOnlyError", "OutOfMemoryError", "ClusterDownError", "TryAgainError"}
)
#: Such answers of Redis that its client has no class for; in a pipeline the command's name precedes them.
_LATER_CODE: Final = re.compile(r"(?:^|: )(?:BUSY|MISCONF|NOREPLICAS)\b")
#: Of signatures that hold others: the arguments that are those.
_PARTS: Final = {"chain": ("tasks",), "group": ("tasks",), "chord": ("header", "body")}


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
            if order is not None and given_up(order):
                raise Ignore  # the next run has its own
            try:
                return original(*args, **kwargs)
            except Retry:
                if order is not None:
                    order.retried = True
                raise
            except Reject as error:
                if order is None or not isinstance(error.reason, Exception):
                    raise
                if not away(task.app, error.reason):
                    raise Unpublished(repr(error.reason)) from error.reason
                if not told:
                    told = True
                    _log.warning("order %s waits for the broker to take its next attempt: %r", order.id, error.reason)
            sleep(_PAUSE_S)

    task.retry = retry


def followers_wait(app: Any, sleep: Callable[[float], object] = time.sleep) -> None:
    """Let what follows an order wait: what is published in its run when its task's function has ended. Idempotent.

    However often it is published, it has one id: the store lets it be called once. A hard limit ends the wait.
    """
    original = app.send_task
    if hasattr(original, _WAITS):
        return

    @functools.wraps(original)
    def send_task(name: str, *args: Any, **options: Any) -> Any:
        order = running.get()
        if order is None or not order.over:
            return original(name, *args, **options)
        generation, told = order.generation, False
        if len(args) < _TASK_ID:
            options["task_id"] = options.get("task_id") or str(uuid.uuid4())
        while True:
            try:
                return original(name, *args, **options)
            except Exception as error:
                if order.generation != generation or not away(app, error):
                    raise
                if not told:
                    told = True
                    _log.warning("order %s waits for the broker to take what follows it: %r", order.id, error)
            sleep(_PAUSE_S)

    setattr(send_task, _WAITS, True)
    app.send_task = send_task


def named(signatures: Any, name: str) -> list[dict[str, Any]]:
    """Give copies of the tasks that are linked to one of this name, with ids made of it, in chains and groups too.

    A worker may die between their publishing and its own acknowledgement: published again, they have the same ids, and
    the store lets each be called once. The next tasks of a chain have theirs from the beginning.

    Copies, because a pickled group may hold one object twice, and these are two orders.
    """
    return [_named(signature, f"{name}/{number}") for number, signature in enumerate(signatures)]


def _named(signature: Any, name: str) -> dict[str, Any]:
    parts = _PARTS.get(signature.get("subtask_type"))
    if parts is None:
        number = str(uuid.uuid5(uuid.NAMESPACE_OID, name))
        return {**signature, "options": {"task_id": number, **(signature.get("options") or {})}}
    held = dict(signature.get("kwargs") or {})
    for part in filter(held.get, parts):
        inside = f"{name}/{part}"
        held[part] = _named(held[part], inside) if isinstance(held[part], dict) else named(held[part], inside)
    return {**signature, "kwargs": held}


def chords_fire(app: Any, sleep: Callable[[float], object] = time.sleep) -> None:
    """Let an order that comes again wait for the claim on its chord's body. Idempotent; for results in Redis.

    From 5.7 on the worker that counts the last member claims the body, for some 20 s, and then publishes it. Where it
    is killed between the two, its order comes again before that time is over, and Celery leaves the body to the dead.
    """
    backend = type(app.backend)
    original: Any = getattr(backend, "on_chord_part_return", None)
    if not hasattr(backend, "_chord_part_return_script") or hasattr(original, _WAITS):
        return

    @functools.wraps(original)
    def on_chord_part_return(self: Any, request: Any, state: Any, result: Any, **options: Any) -> None:
        order, waited = running.get(), False
        while True:
            original(self, request, state, result, **options)
            if order is None or not order.may_be_repeated or not request.group:
                return
            claim = self.client.get(self.get_key_for_group(request.group, ".c"))
            if claim in (b"done", "done") or (claim is None and not waited):
                return
            # Somebody has it; or had it until this moment, and then it may be ours now.
            waited = claim is not None
            if waited:
                sleep(_PAUSE_S)

    setattr(on_chord_part_return, _WAITS, True)
    backend.on_chord_part_return = on_chord_part_return


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
