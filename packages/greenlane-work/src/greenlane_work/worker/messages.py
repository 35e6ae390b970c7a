"""From what Celery hands over, a request or a bare message, to an order: its name, its key, what its headers say."""

from __future__ import annotations

import logging
import time
from collections.abc import Container, Mapping
from datetime import datetime
from typing import Any, Final

from celery.worker.state import revoked, revoked_stamps

from greenlane.probes import enqueued
from greenlane_work.headers import ORDER, count_of
from greenlane_work.keys import KeyFunction
from greenlane_work.order import Identity, Order
from greenlane_work.worker.delivery import Delivery, Line
from greenlane_work.worker.totals import Totals

__all__ = ["OrderReader"]

_log = logging.getLogger("greenlane.work")

#: What key functions raised: each kind is logged once with its traceback, not for every order.
_told: set[type[Exception]] = set()
_TOLD_MOST: Final = 16
#: Celery's count of `self.replace`: the task that replaces another one has its id.
_NESTING: Final = "replaced_task_nesting"


class OrderReader:
    """Makes orders, each with a number of its own in this process.

    Args:
        key_of: reads an order's key; None = all orders have the key "".
        orders_of: read the business's name of an order without the header, by task; else it is the task's id.
    """

    def __init__(
        self, line: Line, totals: Totals, *, key_of: KeyFunction | None, orders_of: Mapping[str, KeyFunction]
    ) -> None:
        self._line = line
        self._totals = totals
        self._key_of = key_of
        self._orders_of = orders_of
        self._numbers = 0

    def order(self, request: Any) -> Order:
        """Give the order of a request, as Celery's strategy makes one.

        Raises:
            ValueError: a header that Celery takes as it comes is none: a name or a time limit of another type.
        """
        headers = request.request_dict
        _check(request)
        arguments = (request.name, request.args or (), request.kwargs or {}, headers)
        key = _read(self._key_of, arguments)
        if not key and self._key_of is not None:
            self._totals.keyless += 1
        named = headers.get(ORDER)
        order_id = (
            named
            if isinstance(named, str) and named
            else _read(self._orders_of.get(request.type), arguments) or request.id
        )
        self._numbers += 1
        order = Order(self._numbers, id=order_id, key=key, name=request.type, size=len(request.message.body or b""))
        order.identity = _identity(headers, request.type, request.id)
        order.redelivered = bool((request.delivery_info or {}).get("redelivered"))
        order.read(headers)
        if order.deliveries or order.returns:  # our copy: for the task it is its message once more
            request.delivery_info["redelivered"] = True
        order.in_doubt |= order.redelivered or order.identity[2] > 0
        order.came = _came(order)
        if request.expires is not None:
            order.expires_at = request.expires.timestamp()
        # Celery settles nothing by itself: a message that is settled twice ends the worker.
        request._on_ack = request.on_reject = _nothing
        request.greenlane_order = True
        order.request = request
        order.delivery = Delivery(request.message, self._line)
        now_ns = time.monotonic_ns()
        enqueued.received(headers)
        order.received_ns = now_ns
        order.arrival_ns = enqueued.arrival_ns(headers) or now_ns
        if request.eta is not None:
            order.arrival_ns = max(order.arrival_ns, enqueued.moment_ns(request.eta))
        return order

    def far_off(self, message: Any, least_s: float, tasks: Container[str]) -> tuple[Order, float] | None:
        """Give an order delivered for the first time that begins later than this, and in how many seconds; else None.

        Ten thousand of them may stand before others in a queue, which would wait for a request of Celery's for each.
        """
        headers = message.headers if isinstance(message.headers, dict) else {}
        eta = headers.get("eta")
        if not eta or headers.get("expires") or (message.delivery_info or {}).get("redelivered") or revoked_stamps:
            return None
        name, number = headers.get("task"), headers.get("id")
        try:
            at = datetime.fromisoformat(eta)
            left_s = at.timestamp() - time.time() if at.tzinfo is not None else 0.0
        except (TypeError, ValueError, OverflowError):
            return None  # whatever is wrong with it is Celery's to say
        if left_s <= least_s or not isinstance(name, str) or not isinstance(number, str):
            return None
        if name not in tasks or number in revoked:
            return None
        self._numbers += 1
        order = Order(self._numbers, id="", key="", name=name, size=len(message.body or b""))
        order.identity = _identity(headers, name, number)
        order.read(headers)
        if order.deliveries:
            return None
        order.came = _came(order)
        order.delivery = Delivery(message, self._line)
        return order, left_s

    def unreadable(self, message: Any) -> Order:
        """Give an order for a message that is to become none here, so that it can be settled like one."""
        self._numbers += 1
        headers = message.headers if isinstance(message.headers, dict) else {}
        name = str(headers.get("task") or "")
        named = str(headers.get(ORDER) or headers.get("id") or "")
        order = Order(self._numbers, id=named, key="", name=name, size=len(message.body or b""))
        order.identity = (name, f"message {self._numbers}", 0, 0)
        order.read(headers)
        order.delivery = Delivery(message, self._line)
        return order

    def discarded(self, request: Any) -> Order:
        """Give an order for a request that Celery has found revoked or expired on receipt."""
        order = self.unreadable(request.message)
        order.request = request
        order.identity = _identity(request.request_dict, request.type, request.id)
        order.redelivered = bool((request.delivery_info or {}).get("redelivered"))
        return order


def _identity(headers: Mapping[str, Any], name: str, number: str) -> Identity:
    return (name, number, count_of(headers.get("retries")), count_of(headers.get(_NESTING)))


def _came(order: Order) -> tuple[object, ...]:
    return (order.identity, order.deliveries, order.returns, order.attempts, order.earlier)


def _nothing(*_arguments: object) -> None:
    pass


def _check(request: Any) -> None:
    if not isinstance(request.id, str):
        raise ValueError(f"id={request.id!r}, expected a text")
    if not isinstance(request.args, list | tuple) or not isinstance(request.kwargs, dict):
        raise ValueError("its arguments are no list and mapping")
    limits = request.time_limits or ()
    if not isinstance(limits, list | tuple) or len(limits) not in (0, 2):
        raise ValueError(f"timelimit={limits!r}, expected two numbers")
    for limit in limits:
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int | float) or limit != limit):
            raise ValueError(f"timelimit={limits!r}, expected two numbers")


def _read(function: KeyFunction | None, arguments: tuple[Any, ...]) -> str:
    if function is None:
        return ""
    try:
        return function(*arguments)
    except Exception as error:
        kind = type(error)
        if kind not in _told and len(_told) < _TOLD_MOST:
            _told.add(kind)
            _log.exception(
                "the key function failed: such orders have the key '' (counted, and not told again for %s)",
                kind.__name__,
            )
        return ""
