"""Greenlane in one Celery worker: what is received is parked, run when its key may, and settled with the broker.

Everything here runs on the owner of the channel but `serve`, which runs an order where orders run.

An order is settled in one of five ways, and its message is acknowledged in no other: it succeeded; it failed with what
its task calls an answer (`throws`), or was revoked; its copy to be run elsewhere or later, or its dead letter, was
confirmed by the broker; the task itself published its retry. A time limit settles nothing.
"""

from __future__ import annotations

import functools
import logging
import random
import time
from _thread import allocate_lock
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from celery.app.trace import fast_trace_task, trace_task_ret
from celery.exceptions import Ignore, Reject, Retry, SoftTimeLimitExceeded
from celery.worker.state import task_ready

from greenlane import enqueued
from greenlane._native import Start, Upstreams
from greenlane.hosts.celery.alarm import Alarm, Entry
from greenlane.hosts.celery.delivery import Delivery, Line
from greenlane.hosts.celery.execution import Again, Dead, Execution
from greenlane.hosts.celery.jobs import Jobs
from greenlane.hosts.celery.outcomes import outcome_of
from greenlane.hosts.celery.owner import Owner
from greenlane.hosts.celery.queues import Queues
from greenlane.hosts.celery.runners import HardTimeLimitExceeded, Runner
from greenlane.policy import Outcome
from greenlane.settings import Settings
from greenlane.tasks.dead_letters import ORDER, RETURNS, Death
from greenlane.tasks.keys import KeyFunction
from greenlane.tasks.order import Identity, Order, State, running
from greenlane.tasks.parked import Parked
from greenlane.tasks.retries import Backoff, RetryBudget

__all__ = ["Host", "Totals"]

_log = logging.getLogger("greenlane.work")

#: Identities of orders that ended here: delivered again, they are acknowledged and not run. Arbitrary; some MB.
_REMEMBERED: Final = 20_000
_DELIVERY_COUNT: Final = "x-delivery-count"
#: At the end the store has so long to write down what it was told.
_STORE_S: Final = 3.0
#: Celery's count of `self.replace`: the task that replaces another one has its id.
_NESTING: Final = "replaced_task_nesting"


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
        self.retries_held = 0
        self.counted = 0


class Host:
    """See the module. Made by the pool; the consumer's step tells it of connections."""

    def __init__(
        self,
        settings: Settings,
        owner: Owner,
        *,
        key_of: KeyFunction | None,
        order_of: KeyFunction | None,
        upstreams: Upstreams,
        make_runner: Callable[[Callable[[Order, int], None]], Runner],
        store: Any = None,
        jobs: Jobs | None = None,
    ) -> None:
        self.settings = settings
        self.owner = owner
        self.line = Line()
        self.totals = Totals()
        self.store = store
        self.parked = Parked(upstreams, start=self._begin, give_back=self._give_back, too_late=self._too_late)
        self.runner = make_runner(self.serve)
        self.execution = Execution(store, self, most_attempts=settings.task_attempts)
        self._key_of = key_of
        self._order_of = order_of
        self._jobs = jobs
        self._numbers = 0
        self._ended: OrderedDict[Identity, None] = OrderedDict()
        # Orders whose copy is on its way to the broker, and what came of the same identity meanwhile.
        self._leaving: dict[Identity, list[Order]] = {}
        self._alarm = Alarm(owner)
        self._wake: Entry | None = None
        self._wake_ns = 0
        self._put_back: Entry | None = None
        self._turning = False
        # The message that became an order last.
        self.taken: Any = None
        # Set by the step, at each connection.
        self.consumer: Any = None
        self.queues: Queues | None = None
        self._random = random.Random()
        self._backoff = Backoff(settings.task_retry_s, settings.task_retry_most_s, settings.task_attempts)
        self._budget = RetryBudget(settings.task_retry_budget_frac)
        self._budget_lock = allocate_lock()

    # --- received -------------------------------------------------------------------------------------------------

    def receive(self, request: Any) -> None:
        """Take over what Celery's strategy would send to the pool."""
        self.totals.received += 1
        order = self._order(request)
        self.taken = request.message
        waiting = self._leaving.get(order.identity)
        if waiting is not None:
            # Its copy is here before the original is acknowledged: begun now, it could end this worker with both.
            waiting.append(order)
        else:
            self._admit(order)

    def _admit(self, order: Order) -> None:
        known = self.parked.known(order.identity)
        if known is not None:
            self._again(known, order)
            return
        if order.redelivered and order.identity in self._ended:
            # Done here, but nobody heard the acknowledgement.
            self.totals.acked_again += 1
            task_ready(order.request)
            order.delivery.ack()
            return
        if self._too_often(order):
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

    def _too_often(self, order: Order) -> bool:
        """Whether a message goes elsewhere because it was delivered before: it may have ended whoever took it.

        Quorum queues count deliveries and the store counts attempts. Where nobody counts, a message that comes again is
        published anew with its count, and the old one acknowledged.
        """
        headers = order.request.request_dict
        count = headers.get(_DELIVERY_COUNT)
        counted = isinstance(count, int) or self.store is not None
        deliveries = count if isinstance(count, int) else order.deliveries
        if deliveries >= self.settings.task_deliveries:
            self._bury(order, "deliveries", f"delivered {deliveries + 1} times")
            return True
        if counted or not order.redelivered:
            return False
        order.deliveries += 1
        self.totals.counted += 1
        self._publish(order, self.queues_now.own, {})
        return True

    def _order(self, request: Any) -> Order:
        headers = request.request_dict
        arguments = (request.name, request.args or (), request.kwargs or {}, headers)
        key = self._read(self._key_of, arguments)
        if not key and self._key_of is not None:
            self.totals.keyless += 1
        named = headers.get(ORDER)
        order_id = named if isinstance(named, str) and named else self._read(self._order_of, arguments) or request.id
        self._numbers += 1
        order = Order(
            self._numbers, order_id=order_id, key=key, name=request.type, size=len(request.message.body or b"")
        )
        order.identity = (request.type, request.id, headers.get("retries") or 0, headers.get(_NESTING) or 0)
        order.redelivered = bool((request.delivery_info or {}).get("redelivered"))
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
        """The same once more: the broker took the message back with a connection, or there are two of it."""
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
        self.totals.started += 1
        if not order.attempts:
            with self._budget_lock:
                self._budget.attempted(time.monotonic_ns())
        order.began_s = round(time.time(), 3)
        order.generation += 1
        order.late = ""
        self._set_limits(order, start)
        request.on_accepted(order.number, time.monotonic())
        self.runner.run(order)

    def serve(self, order: Order, generation: int) -> None:
        """Run an order; called where orders run. `generation`: which of its runs this is."""
        if order.generation != generation:
            return  # given up before it began
        result: Any = None
        while True:
            # The soft limit may be raised anywhere in here, once: what ended has to be told all the same.
            try:
                result = result or self._traced(order)
                self.owner.post(functools.partial(self._finished, order, generation, result))
                return
            except SoftTimeLimitExceeded:
                result = result or (1, ExceptionInfo(), 0.0)

    def _traced(self, order: Order) -> tuple[Any, Any, Any]:
        """Give what Celery's tracer gives: (failed, value or error, seconds)."""
        request = order.request
        token = running.set(order)
        opened = self._jobs is not None and self._jobs.open(order)
        try:
            trace = fast_trace_task if request.app.use_fast_trace_task else trace_task_ret
            failed, value, seconds = trace(
                request.type,
                request.id,
                request.request_dict,
                request.body,
                request.content_type,
                request.content_encoding,
                app=request.app,
            )
        except HardTimeLimitExceeded:
            raise  # nobody waits for this run any more
        except BaseException:
            return 1, ExceptionInfo(), 0.0
        finally:
            running.reset(token)
            if opened and self._jobs is not None:
                self._jobs.close()
        return failed, value, seconds

    def _set_limits(self, order: Order, start: Start) -> None:
        request, settings = order.request, self.settings
        remaining_s = order.remaining_s()
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
        order.due_ns = time.monotonic_ns() + int(soft * 1e9) if soft else 0
        for seconds, meets in ((soft, self._soften), (hard, self._give_up)):
            if seconds:
                at_ns = time.monotonic_ns() + int(seconds * 1e9)
                call = functools.partial(meets, order, order.generation, seconds)
                order.timers.append(self._alarm.at(at_ns, call))

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
        self._cancel(order)
        order.generation += 1
        self.runner.abandon(order, generation)
        self.parked.ended(order, Outcome.TIMED_OUT)
        task_ready(order.request)
        self._in_doubt(order, reason)
        order.note("unknown", reason)
        at_ns = self.again_ns(order)
        if at_ns is None:
            self._bury(order, "attempts", reason)
        elif not order.delivery.stale:
            self.totals.retried += 1
            self._later(order, at_ns)
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
            _tell(order.request, "task-succeeded", result=value, runtime=runtime)
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
            _tell(request, "task-retried", exception=repr(error.exc), traceback=str(info.traceback))
        elif isinstance(error, Ignore) or isinstance(error, tuple(_expected(request.task))):
            self.totals.failed += 1
            self._settle(order)
            _tell(request, "task-failed", exception=repr(error), traceback=str(info.traceback))
        elif isinstance(error, Reject) and error.requeue:
            self._return(order, "the task rejected it, to be queued again")
        else:
            order.note("failed", repr(error))
            self._bury(order, *_death(order, error))
            _tell(request, "task-failed", exception=repr(error), traceback=str(getattr(info, "traceback", "")))

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
            order.note("unknown" if order.late else "failed", again.why)
        self._later(order, again.at_ns)

    def _later(self, order: Order, at_ns: int) -> None:
        """Keep it until its next attempt; where so many wait that none would be received any more, return it."""
        if self.parked.between * 2 < self.settings.task_parked_most:
            self.parked.later(order, at_ns)
        else:
            self._return(order, "no room until its next attempt")

    def again_ns(self, order: Order) -> int | None:
        """Give when a failed order is run again; None: attempts or deadline do not allow it. From any thread.

        A retry for which the budget has none left waits until it has.
        """
        if self._backoff.spent(order.attempts, time.time(), order.deadline_at):
            return None
        now_ns = time.monotonic_ns()
        at_ns = now_ns + int(self._backoff.delay_s(order.attempts, self._random.random()) * 1e9)
        with self._budget_lock:
            if not self._budget.take(now_ns):
                self.totals.retries_held += 1
                at_ns = max(at_ns, self._budget.ready_ns(now_ns) + int(self._random.uniform(0, 1e9)))
        remaining_s = order.remaining_s()
        if remaining_s is not None and at_ns - now_ns >= remaining_s * 1e9:
            return None
        return at_ns

    # --- settled --------------------------------------------------------------------------------------------------

    def _settle(self, order: Order) -> None:
        """Acknowledge: nothing is left to do for this order, and if its message comes again, it is not run again."""
        self._remember(order)
        self._acknowledge(order)

    def _acknowledge(self, order: Order) -> None:
        order.state = State.ENDED
        order.delivery.ack()
        copies, order.copies = order.copies, []
        for copy in copies:
            if copy.redelivered:
                self.totals.acked_again += 1
                copy.delivery.ack()
            else:  # somebody published it twice: the store knows what that means
                self._admit(copy)

    def _remember(self, order: Order) -> None:
        order.request.acknowledged = True
        self._ended[order.identity] = None
        if len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)

    def _bury(self, order: Order, reason: str, said: str) -> None:
        """To the dead letters, with its history; acknowledged when the broker has it there."""
        self.totals.dead += 1
        _log.error("order %s at %r goes to the dead letters (%s): %s", order.id, order.key, reason, said)
        self._send(order, reason, said)

    def _give_back(self, order: Order) -> None:
        """There is no room for it here: back to the broker, for a while."""
        self._return(order, "no room")

    def _too_late(self, order: Order) -> None:
        self._bury(order, "deadline", "its deadline passed while it waited")

    def _return(self, order: Order, reason: str) -> None:
        self.totals.returned += 1
        order.returns += 1
        order.note("returned", reason)
        self._send(order)

    def _send(self, order: Order, dead: str = "", said: str = "") -> None:
        """Publish a copy: to the dead letters for the reason `dead`, or back to the queue after a while."""
        queues = self.queues_now
        if dead:
            name = queues.name(order.delivery.message)
            death = Death(dead, said, name, round(time.time(), 3), order.id, order.name, order.history)
            self._publish(order, queues.dead, death.headers())
        else:
            self._publish(order, functools.partial(queues.later, returns=order.returns), {})

    def _publish(self, order: Order, queue: Callable[[str], Any], more: Mapping[str, object]) -> None:
        """Publish a copy to the queue of this kind; the original is acknowledged when the broker has confirmed it."""
        order.state = State.LEAVING
        self._leaving.setdefault(order.identity, [])
        delivery = order.delivery

        def arrived(published: bool) -> None:
            self.owner.post(lambda: self._left(order, published))

        self.queues_now.send(
            delivery.message, {**order.headers(), **more}, queue, still=lambda: not delivery.stale, done=arrived
        )

    @property
    def queues_now(self) -> Queues:
        """The queues of the present connection."""
        assert self.queues is not None, "a delivery came before its connection"
        return self.queues

    def _left(self, order: Order, published: bool) -> None:
        waiting = self._leaving.pop(order.identity, [])
        # Not remembered as done: it comes again by its copy.
        if published:
            self._acknowledge(order)
        for copy in waiting:
            if not copy.delivery.stale:
                self._admit(copy)

    def bury_message(self, message: Any, reason: str) -> None:
        """To the dead letters, what never became an order."""
        self._send_message(message, "malformed", reason)

    def return_message(self, message: Any, reason: str) -> None:
        """Back to the broker, for another version of the application, until it has come too often."""
        returns = message.headers.get(RETURNS)
        dead = isinstance(returns, int) and returns >= self.settings.task_deliveries
        self._send_message(message, "unregistered" if dead else "", reason)

    def _send_message(self, message: Any, dead: str, said: str) -> None:
        self._numbers += 1
        headers = message.headers if isinstance(message.headers, dict) else {}
        name = str(headers.get("task") or "")
        named = str(headers.get(ORDER) or headers.get("id") or "")
        order = Order(self._numbers, order_id=named, key="", name=name, size=len(message.body or b""))
        order.identity = (name, f"message {self._numbers}", 0, 0)
        order.read(headers)
        order.delivery = Delivery(message, self.line)
        self.totals.received += 1
        if dead:
            self._bury(order, dead, said)
        else:
            self._return(order, said)

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

    def put_back(self) -> None:
        """Where the workers put back what waits at the broker: now and again."""
        if self._put_back is not None:
            self._put_back.cancel()
        after_s = self.queues.put_back() if self.queues is not None else None
        if after_s is not None:
            self._put_back = self._alarm.at(time.monotonic_ns() + int(after_s * 1e9), self.put_back)

    def leaving(self) -> int:
        """Give how many copies are on their way to the broker."""
        return self.queues.waiting if self.queues is not None else 0

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
        if self.store is not None:
            self.store.close(_STORE_S)

    def _cancel(self, order: Order) -> None:
        for entry in order.timers:
            entry.cancel()
        order.timers = []

    def _call_at(self, at_ns: int | None) -> None:
        if at_ns is None or (self._wake is not None and self._wake_ns <= at_ns):
            return
        if self._wake is not None:
            self._wake.cancel()
        self._wake_ns = at_ns
        self._wake = self._alarm.at(at_ns, self._woken)

    def _woken(self) -> None:
        self._wake = None
        self.turn()


def _tell(request: Any, event: str, **fields: object) -> None:
    """Send one of Celery's events. What becomes of it is nothing to the order."""
    try:
        request.send_event(event, **fields)
    except Exception:
        _log.debug("the event %s could not be sent", event, exc_info=True)


def _expected(task: Any) -> tuple[type[BaseException], ...]:
    throws = getattr(task, "throws", ()) or ()
    return tuple(throws) if isinstance(throws, tuple | list) else (throws,)


def _death(order: Order, error: BaseException) -> tuple[str, str]:
    """A word for why, and a sentence."""
    remaining_s = order.remaining_s()
    if remaining_s is not None and remaining_s <= 0:
        return "deadline", repr(error)
    if isinstance(error, Reject):
        return "rejected", str(error.reason or "the task rejected it")
    return "attempts", str(error) if isinstance(error, Dead) else repr(error)
