"""Greenlane in one Celery worker: what is received is parked, run when its key may, and settled with the broker.

Everything here runs on the owner of the channel but `_serve`, which runs an order where orders run.

An order is settled in one of five ways, and its message is acknowledged in no other: it succeeded; it failed with what
its task calls an answer (`throws`), or was revoked; its copy to be run elsewhere or later, or its dead letter, was
confirmed by the broker; the task itself published its retry. A time limit settles nothing.
"""

from __future__ import annotations

import logging
import random
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from celery.app.trace import fast_trace_task, trace_task_ret
from celery.exceptions import Ignore, Reject, Retry
from celery.worker.state import task_ready

from greenlane import enqueued
from greenlane.hosts.celery.delivery import Delivery, Line
from greenlane.hosts.celery.execution import Again, Dead, Execution
from greenlane.hosts.celery.outcomes import outcome_of
from greenlane.hosts.celery.owner import Owner
from greenlane.hosts.celery.queues import Queues
from greenlane.hosts.celery.runners import Runner
from greenlane.policy.upstreams import Outcome, Start
from greenlane.settings import Settings
from greenlane.tasks.keys import KeyFunction
from greenlane.tasks.order import ORDER, RETURNS, Order, State, running
from greenlane.tasks.parked import Parked

__all__ = ["Host", "Totals"]

_log = logging.getLogger("greenlane.work")

#: Identities of orders that ended here: delivered again, they are acknowledged and not run. Arbitrary; some MB.
_REMEMBERED: Final = 20_000
_DELIVERY_COUNT: Final = "x-delivery-count"


class Totals:
    """What the worker counts of orders."""

    def __init__(self) -> None:
        self.received = 0
        self.started = 0
        self.done = 0
        self.failed = 0
        self.retried = 0
        self.dead = 0
        self.returned = 0
        self.revoked = 0
        self.acked_again = 0
        self.soft_limits = 0
        self.hard_limits = 0
        self.keyless = 0
        self.given_back = 0


class Host:
    """See the module. Made by the pool; the consumer's step tells it of connections."""

    def __init__(
        self,
        settings: Settings,
        owner: Owner,
        *,
        key_of: KeyFunction | None,
        order_of: KeyFunction | None,
        make_parked: Callable[[Callable[[Order, Start], None], Callable[[Order], None]], Parked],
        make_runner: Callable[[Callable[[Order], None]], Runner],
        store: Any = None,
        open_job: Callable[[Order], bool] | None = None,
        close_job: Callable[[], object] | None = None,
    ) -> None:
        self.settings = settings
        self.owner = owner
        self.line = Line()
        self.totals = Totals()
        self.store = store
        self.parked = make_parked(self._begin, self._give_back)
        self.runner = make_runner(self._serve)
        self.execution = Execution(store, self, most_attempts=settings.task_attempts)
        self._key_of = key_of
        self._order_of = order_of
        self._open_job = open_job
        self._close_job = close_job
        self._numbers = 0
        self._ended: OrderedDict[tuple[str, int], None] = OrderedDict()
        self._wake: Any = None
        self._wake_ns = 0
        self._turning = False
        # Set by the step, at each connection.
        self.consumer: Any = None
        self.queues: Queues | None = None
        self._random = random.Random()

    # --- received -------------------------------------------------------------------------------------------------

    def receive(self, request: Any) -> None:
        """Take over what Celery's strategy would send to the pool."""
        self.totals.received += 1
        order = self._order(request)
        known = self.parked.known(order.identity)
        if known is not None:
            self._again(known, order)
            return
        if order.identity in self._ended:
            # Done here, but nobody heard the acknowledgement.
            self.totals.acked_again += 1
            task_ready(request)
            order.delivery.ack()
            return
        count = request.request_dict.get(_DELIVERY_COUNT)
        if isinstance(count, int) and count >= self.settings.task_deliveries:
            self._bury(order, f"delivered {count + 1} times")
            return
        remaining_s = order.remaining_s()
        if remaining_s is not None and remaining_s <= 0:
            self._bury(order, "its deadline passed before it was begun")
            return
        self.parked.arrive(order)
        self.turn()

    def turn(self) -> None:
        """Start what may start; be called again when that may change."""
        if self._turning:
            return
        self._turning = True
        try:
            at_ns = self.parked.turn()
        finally:
            self._turning = False
        self._call_at(at_ns)

    def _order(self, request: Any) -> Order:
        headers = request.request_dict
        arguments = (request.name, request.args or (), request.kwargs or {}, headers)
        key = self._read(self._key_of, arguments)
        if not key and self._key_of is not None:
            self.totals.keyless += 1
        named = headers.get(ORDER)
        order_id = named if isinstance(named, str) and named else self._read(self._order_of, arguments) or request.id
        self._numbers += 1
        order = Order(self._numbers, order_id=order_id, key=key, name=request.type, size=len(request.message.body or b""))
        order.identity = (request.id, int(headers.get("retries") or 0))
        order.read(headers)
        order.request = request
        order.delivery = Delivery(request.message, self.line)
        now_ns = time.monotonic_ns()
        order.arrival_ns = enqueued.arrival_ns(headers) or now_ns
        if enqueued.AT not in headers:
            # For the recording: what nobody told at publication counts from here.
            headers.update(enqueued.headers())
        return order

    def _read(self, function: KeyFunction | None, arguments: tuple[Any, ...]) -> str:
        if function is None:
            return ""
        try:
            return function(*arguments)
        except Exception:
            _log.exception("the key function failed: the order has the key ''")
            return ""

    def _again(self, known: Order, order: Order) -> None:
        """The same message once more: the broker took it back with a connection, or there are two copies of it."""
        if known.delivery.stale:
            known.delivery = order.delivery
        else:
            known.copies.append(order)

    # --- run ------------------------------------------------------------------------------------------------------

    def _begin(self, order: Order, start: Start) -> None:
        request = order.request
        if request.revoked():
            self.totals.revoked += 1
            self.parked.ended(order, Outcome.CANCELLED)
            self._settle(order)
            return
        remaining_s = order.remaining_s()
        if remaining_s is not None and remaining_s <= 0:
            self.parked.ended(order, Outcome.CANCELLED)
            self._bury(order, "its deadline passed while it was parked")
            return
        self.totals.started += 1
        order.generation += 1
        order.late = ""
        self._set_limits(order, start, remaining_s)
        request.on_accepted(order.number, time.monotonic())
        self.runner.run(order)

    def _serve(self, order: Order) -> None:
        """Run an order; where orders run."""
        request, generation = order.request, order.generation
        token = running.set(order)
        opened = self._open_job is not None and self._open_job(order)
        result: Any
        try:
            trace = fast_trace_task if request.app.use_fast_trace_task else trace_task_ret
            result = trace(
                request.type,
                request.id,
                request.request_dict,
                request.body,
                request.content_type,
                request.content_encoding,
                app=request.app,
            )
        except BaseException:
            result = (1, ExceptionInfo(), 0.0)
        finally:
            running.reset(token)
            if opened and self._close_job is not None:
                self._close_job()
        self.owner.post(lambda: self._finished(order, generation, result))

    def _set_limits(self, order: Order, start: Start, remaining_s: float | None) -> None:
        request, settings = order.request, self.settings
        hard, soft = request.time_limits or (None, None)
        soft = soft or request.task.soft_time_limit or settings.task_soft_limit_s or None
        hard = hard or request.task.time_limit or settings.task_hard_limit_s or None
        if start.time_limit_ns:
            soft = min(soft or 1e9, start.time_limit_ns / 1e9)
        if remaining_s is not None:
            soft = min(soft or 1e9, remaining_s)
            hard = min(hard or 1e9, remaining_s + settings.task_grace_s)
        elif soft and not hard:
            hard = soft + settings.task_grace_s
        timer, generation = self.consumer.timer, order.generation
        for seconds, meets in ((soft, self._soften), (hard, self._give_up)):
            if seconds:
                call = self._posting(meets, order, generation, seconds)
                order.timers.append(timer.call_after(seconds, call))

    def _posting(self, meets: Callable[[Order, int, float], None], *arguments: Any) -> Callable[[], None]:
        return lambda: self.owner.post(lambda: meets(*arguments))

    def _soften(self, order: Order, generation: int, seconds: float) -> None:
        if order.generation == generation and order.state is State.RUNNING:
            self.totals.soft_limits += 1
            order.late = f"soft time limit of {seconds:g} s"
            _log.warning("%s: order %s at %r is stopped at its next chance", order.late, order.id, order.key)
            self.runner.soften(order)

    def _give_up(self, order: Order, generation: int, seconds: float) -> None:
        """The hard limit: its place is free; whether the call went through, nobody knows."""
        if order.generation != generation or order.state is not State.RUNNING:
            return
        self.totals.hard_limits += 1
        reason = f"hard time limit of {seconds:g} s"
        _log.error("%s: order %s at %r is given up and will be tried again", reason, order.id, order.key)
        order.generation += 1
        self._cancel(order)
        self.runner.abandon(order)
        self.parked.ended(order, Outcome.TIMED_OUT)
        self._in_doubt(order, reason)
        order.note("hard limit", reason)
        at_ns = self.again_ns(order)
        if at_ns is None:
            self._bury(order, reason)
        else:
            self.totals.retried += 1
            self.parked.later(order, at_ns)
        self.turn()

    def _in_doubt(self, order: Order, reason: str) -> None:
        if self.store is not None:
            self.execution.in_doubt(order, reason)

    # --- ended ----------------------------------------------------------------------------------------------------

    def _finished(self, order: Order, generation: int, result: tuple[Any, Any, Any]) -> None:
        if order.generation != generation or order.state is not State.RUNNING:
            return  # it was given up
        self._cancel(order)
        failed, value, runtime = result
        if failed:
            self._unsuccessful(order, value)
        else:
            self.totals.done += 1
            self.parked.ended(order, Outcome.OK)
            task_ready(order.request, successful=True)
            self._settle(order)
            order.request.send_event("task-succeeded", result=value, runtime=runtime)
        self.turn()

    def _unsuccessful(self, order: Order, info: Any) -> None:
        error = getattr(info, "exception", info)
        if isinstance(error, ExceptionWithTraceback):
            error = error.exc
        request = order.request
        self.parked.ended(order, self._outcome(order, error))
        task_ready(request)
        if isinstance(error, Again):
            self._once_more(order, error)
        elif isinstance(error, Retry):
            # Its copy, with the next number of retries, was published and confirmed by the task.
            self.totals.retried += 1
            self._settle(order)
            request.send_event("task-retried", exception=repr(error.exc), traceback=str(info.traceback))
        elif isinstance(error, Ignore) or isinstance(error, tuple(_expected(request.task))):
            self.totals.failed += 1
            self._settle(order)
            request.send_event("task-failed", exception=repr(error), traceback=str(info.traceback))
        elif isinstance(error, Reject) and error.requeue:
            self._return(order, "the task rejected it, to be queued again")
        else:
            order.note("failed", repr(error))
            self._bury(order, order.late or _reason(error))
            request.send_event("task-failed", exception=repr(error), traceback=str(getattr(info, "traceback", "")))

    def _outcome(self, order: Order, error: BaseException) -> Outcome:
        if isinstance(error, Again) and not error.counted:
            return Outcome.CANCELLED
        if isinstance(error, Ignore | Reject | Dead) or isinstance(error, tuple(_expected(order.request.task))):
            return Outcome.OK if not isinstance(error, Reject | Dead) else Outcome.CANCELLED
        return Outcome.TIMED_OUT if order.late else outcome_of(error)

    def _once_more(self, order: Order, again: Again) -> None:
        if order.delivery.stale:
            return  # the broker has it: whoever is next in line runs it
        if again.counted:
            self.totals.retried += 1
            order.note("failed", again.why)
        self.parked.later(order, again.at_ns)

    def again_ns(self, order: Order) -> int | None:
        """Give when a failed order is run again: full jitter; None: attempts or deadline do not allow it."""
        settings = self.settings
        if order.attempts >= settings.task_attempts:
            return None
        most = min(settings.task_retry_most_s, settings.task_retry_s * 2 ** max(0, order.attempts - 1))
        wait_s = self._random.uniform(0, most)
        remaining_s = order.remaining_s()
        if remaining_s is not None and wait_s >= remaining_s:
            return None
        return time.monotonic_ns() + int(wait_s * 1e9)

    # --- settled --------------------------------------------------------------------------------------------------

    def _settle(self, order: Order) -> None:
        """Acknowledge: nothing is left to do for this order."""
        order.state = State.ENDED
        self._remember(order)
        order.delivery.ack()
        for copy in order.copies:
            self.totals.acked_again += 1
            copy.delivery.ack()
        order.copies = []

    def _remember(self, order: Order) -> None:
        if order.request is not None:
            order.request.acknowledged = True
        self._ended[order.identity] = None
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def _bury(self, order: Order, reason: str) -> None:
        """To the dead letters, with its history; acknowledged when the broker has it there."""
        self.totals.dead += 1
        order.note("dead", reason)
        _log.error("order %s at %r goes to the dead letters: %s", order.id, order.key, reason)
        self._send(order, dead=True)

    def _give_back(self, order: Order) -> None:
        """There is no room for it here: back to the broker, for a while."""
        self._return(order, "no room")

    def _return(self, order: Order, reason: str) -> None:
        self.totals.returned += 1
        order.returns += 1
        order.note("returned", reason)
        self._send(order, dead=False)

    def _send(self, order: Order, *, dead: bool) -> None:
        assert self.queues is not None
        order.state = State.LEAVING
        delivery = order.delivery

        def arrived(published: bool) -> None:
            self.owner.post(lambda: self._left(order, published))

        self.queues.send(delivery.message, order.headers(), dead=dead, returns=order.returns,
                         still=lambda: not delivery.stale, done=arrived)  # fmt: skip

    def _left(self, order: Order, published: bool) -> None:
        if published:
            self._settle(order)

    def bury_message(self, message: Any, reason: str) -> None:
        """To the dead letters, what never became an order."""
        self._send_message(message, reason, dead=True)

    def return_message(self, message: Any, reason: str) -> None:
        """Back to the broker, for another version of the application, until it has come too often."""
        returns = message.headers.get(RETURNS)
        dead = isinstance(returns, int) and returns >= self.settings.task_deliveries
        self._send_message(message, reason, dead=dead)

    def _send_message(self, message: Any, reason: str, *, dead: bool) -> None:
        self._numbers += 1
        headers = message.headers if isinstance(message.headers, dict) else {}
        name = str(headers.get("task") or "")
        named = str(headers.get(ORDER) or headers.get("id") or "")
        order = Order(self._numbers, order_id=named, key="", name=name, size=len(message.body or b""))
        order.identity = (f"message {self._numbers}", 0)
        order.read(headers)
        order.delivery = Delivery(message, self.line)
        self.totals.received += 1
        if dead:
            self._bury(order, reason)
        else:
            self._return(order, reason)

    # --- connections and the end -----------------------------------------------------------------------------------

    def disconnected(self) -> None:
        """Forget what the broker has taken back; what runs goes on."""
        self.line.lost()
        for order in list(self.parked.waiting()):
            self.parked.withdraw(order)
        for order in self.parked.in_progress():
            order.copies = []

    def give_all_back(self) -> int:
        """Give unstarted orders back at once; nothing starts any more. Gives how many."""
        self.parked.open = False
        orders = list(self.parked.waiting())
        for order in orders:
            self.parked.withdraw(order)
            order.state = State.ENDED
            order.delivery.requeue()
            for copy in order.copies:
                copy.delivery.requeue()
        self.totals.given_back += len(orders)
        return len(orders)

    def busy(self) -> bool:
        """Whether something runs, or a copy is on its way to the broker."""
        return self.parked.running > 0 or (self.queues is not None and self.queues.waiting > 0)

    def stop_order(self, number: int) -> None:
        """Stop one running order as its soft limit would."""
        for order in self.parked.in_progress():
            if order.number == number:
                self._soften(order, order.generation, 0)

    def close(self) -> None:
        """Leave nothing behind but threads that will not end."""
        if self.queues is not None:
            self.queues.stop()
        self.runner.close()

    def _cancel(self, order: Order) -> None:
        for entry in order.timers:
            self.consumer.timer.cancel(entry)
        order.timers = []

    def _call_at(self, at_ns: int | None) -> None:
        if at_ns is None or self.consumer is None:
            return
        now_ns = time.monotonic_ns()
        if self._wake_ns > now_ns and self._wake_ns <= at_ns:
            return
        if self._wake is not None:
            self.consumer.timer.cancel(self._wake)
        self._wake_ns = at_ns
        self._wake = self.consumer.timer.call_after(max(0.0, (at_ns - now_ns) / 1e9), self._woken)

    def _woken(self) -> None:
        self.owner.post(self._woken_here)

    def _woken_here(self) -> None:
        self._wake, self._wake_ns = None, 0
        self.turn()


def _expected(task: Any) -> tuple[type[BaseException], ...]:
    throws = getattr(task, "throws", ()) or ()
    return tuple(throws) if isinstance(throws, tuple | list) else (throws,)


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, Dead) else repr(error)
