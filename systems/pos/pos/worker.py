"""The worker's application: `celery -A pos.worker worker …`, or `greenlane celery pos.worker:app`.

The task is a plain Celery task, written as carefully as plain Celery allows: it asks the merchant before it calls a
second time, tries again with full jitter, and what is given up goes to the dead letters.
"""

from __future__ import annotations

import hashlib
import random
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any, Final

from .calls import CallError, Failed, Merchants, Refused
from .journal import Event, Journal
from .queueing import TASK, application
from .surroundings import Surroundings

#: Attempts beyond the first; an order that fails so often is given up.
RETRIES: Final = 8
#: The first wait is up to so long, each further one up to twice as long as the one before, none over the most.
_FIRST_S, _MOST_S = 0.5, 30.0
_HAD_IT: Final = "the merchant had it"

around: Final = Surroundings.here()
app: Final = application(around)


@cache
def merchants() -> Merchants:
    """This process's connections: made after the fork, where there is one."""
    return Merchants(around)


@cache
def journal() -> Journal:
    """This process's journal."""
    return Journal(around.journal)


def asked(*, order: str, merchant: str, until: float = 0.0) -> str | None:
    """Whether a call whose end nobody knows has reached the merchant, on behalf of a store; None = it is to be made.

    A merchant that does not tell is called again, with the same idempotency key.

    Raises:
        CallError: nobody was reached: ask later.
    """
    if not merchants().has(merchant, order):
        return None
    journal().tell(Event.DONE, order, merchant, _HAD_IT)
    return merchant


@app.task(name=TASK, bind=True, max_retries=RETRIES, ask=asked)  # type: ignore[untyped-decorator]
def send_order(self: Any, *, order: str, merchant: str, until: float = 0.0) -> None:
    """Places an order at its merchant; not after `until`, in seconds since 1970, where that is not 0."""
    if merchant not in around.merchants:
        journal().tell(Event.DEAD, order, merchant, "the merchant is unknown")
        raise LookupError(f"send an order: merchant={merchant!r}, expected one of {', '.join(around.names())}")
    try:
        if around.store:
            _sent_once(self, order, merchant, until)
        else:
            _sent(self, order, merchant, until)
    except CallError as error:
        _later(self, order, merchant, error)


def _sent_once(task: Any, order: str, merchant: str, until: float) -> None:
    """Where a stock worker shares a store with Greenlane's: an order that both are given is called by one."""
    # Only here: what is measured of a stock worker has none of our code in it.
    from greenlane.errors import OrderWaits
    from greenlane_work import current, once

    if current() is not None:
        # Greenlane's worker has asked the store.
        _sent(task, order, merchant, until)
        return
    try:
        once(
            _store(), f"{TASK}/{order}", lambda: _sent(task, order, merchant, until),
            ask=lambda: asked(order=order, merchant=merchant), no_effect=(Failed,),
        )  # fmt: skip
    except OrderWaits as wait:
        raise task.retry(exc=wait, countdown=wait.wait_s, max_retries=sys.maxsize) from None


def _sent(task: Any, order: str, merchant: str, until: float) -> None:
    tell = journal().tell
    tell(Event.BEGAN, order, merchant)
    prepared(order, around.work_ms)
    if _again(task.request) and merchants().has(merchant, order):
        tell(Event.DONE, order, merchant, _HAD_IT)
        return
    if (event := unwanted(order, until)) is not None:
        tell(event, order, merchant)
        return
    tell(Event.CALLED, order, merchant)
    try:
        merchants().place(merchant, order)
    except Refused as error:
        tell(Event.REFUSED, order, merchant, str(error))
    else:
        tell(Event.DONE, order, merchant)


def unwanted(order: str, until: float) -> Event | None:
    """How an order ends that is no longer to be sent."""
    if around.cancelled and Path(around.cancelled, order).exists():
        return Event.CANCELLED
    return Event.REFUNDED if 0 < until < time.time() else None


@cache
def _store() -> Any:
    """This process's store."""
    from greenlane_work.store import open_store

    return open_store(around.store)


def prepared(order: str, work_ms: float) -> str:
    """Computes for so long of this thread's CPU time: an order in the merchant's own form, signed."""
    until_ns = time.thread_time_ns() + int(work_ms * 1e6)
    signed = order.encode()
    while time.thread_time_ns() < until_ns:
        for _ in range(20):
            signed = hashlib.sha256(signed).digest()
    return signed.hex()


def _again(request: Any) -> bool:
    """Somebody may have called for this order before."""
    return bool(request.retries or (request.delivery_info or {}).get("redelivered"))


def _later(task: Any, order: str, merchant: str, error: CallError) -> None:
    """Another attempt after a while, or none after the last."""
    attempt = task.request.retries
    event = Event.FAILED if attempt < RETRIES else Event.DEAD
    journal().tell(event, order, merchant, str(error))
    wait_s = random.uniform(0, min(_MOST_S, _FIRST_S * 2**attempt))
    raise task.retry(exc=error, countdown=wait_s)
