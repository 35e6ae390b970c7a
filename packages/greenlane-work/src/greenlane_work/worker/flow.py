"""An order's way through the worker: it is received, parked, run when its key allows it, and settled with the broker.

Everything here runs on the owner of the channel. An order that `messages` has read goes to `parking`, from there to
`runs`, and when its run has ended to `settlement`, or back to `parking` to be tried again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Mapping
from typing import Any, Final

from billiard.einfo import ExceptionInfo, ExceptionWithTraceback
from celery.exceptions import Ignore, Reject, Retry, TimeLimitExceeded, WorkerLostError
from celery.worker.state import task_ready

from greenlane._native import Start, Upstreams
from greenlane_work.headers import RETURNS
from greenlane_work.keys import KeyFunction
from greenlane_work.limits import CallOutcome, UpstreamRule
from greenlane_work.order import Order, Stage
from greenlane_work.settings import WorkSettings
from greenlane_work.worker.delivery import Line
from greenlane_work.worker.execution import Again, Dead, Execution, expected
from greenlane_work.worker.jobs import RecordedJobs
from greenlane_work.worker.messages import OrderReader
from greenlane_work.worker.outcomes import outcome_of
from greenlane_work.worker.own_retry import away
from greenlane_work.worker.owner import Alarm, Entry, Owner
from greenlane_work.worker.parking import Parking
from greenlane_work.worker.pauses import Pauses
from greenlane_work.worker.probes import Probes
from greenlane_work.worker.results import forgotten, reserved, scheduled, tell
from greenlane_work.worker.retries import Retrying
from greenlane_work.worker.return_pacing import ReturnPacing
from greenlane_work.worker.runs import UNTRACED, Result, Runner, Runs, Serve
from greenlane_work.worker.settlement import Settlement
from greenlane_work.worker.totals import Totals

__all__ = ["OrderFlow"]

_log = logging.getLogger("greenlane.work")

_DELIVERY_COUNT: Final = "x-delivery-count"
#: At the end the store has this long to write down what it was told.
_STORE_S: Final = 3.0
#: Orders that may wait here for their time beside those that are parked, and steps of the prefetch count. Arbitrary.
_TIMED_MOST: Final = 1_000
_STEP: Final = 32


class OrderFlow:
    """See the module. Made by the pool; the consumer's step tells it of connections."""

    def __init__(
        self,
        settings: WorkSettings,
        owner: Owner,
        *,
        key_of: KeyFunction | None,
        orders_of: Mapping[str, KeyFunction],
        upstreams: Upstreams,
        make_runner: Callable[[Serve], Runner],
        store: Any = None,
        shared: Callable[[str], int] | None = None,
        providers: Upstreams | None = None,
        jobs: RecordedJobs,
    ) -> None:
        """Put them together.

        Args:
            shared: gives a key's limit over all workers; None = no key has one.
            providers: decides for those of keys in two parts; None = keys have one.
        """
        self.settings = settings
        self.owner = owner
        self.line = Line()
        self.totals = Totals()
        self.store = store
        self.parked = Parking(
            upstreams, start=self._begin, give_back=self._no_room, too_late=self._too_late,
            most_ns=round(settings.task_parked_most_s * 1e9),
        )  # fmt: skip
        self.parked.providers = providers
        self.parked.stays = self._stays
        self._alarm = Alarm(owner)
        self.settlement = Settlement(owner, self._alarm, self.totals, self._admit, settings.task_parked_most_s)
        self.settlement.results.done = self.done
        self._reading = OrderReader(self.line, self.totals, key_of=key_of, orders_of=orders_of)
        self._retrying = Retrying(settings, self.totals, stored=store is not None)
        self._return_pacing = ReturnPacing(UpstreamRule.keys_most)
        if shared is not None:
            from greenlane_work.worker.shares import SharedLimits  # it loads the store

            self.parked.shares = SharedLimits(store, upstreams, owner, self._alarm, limit_of=shared, turn=self.turn)
        self.pauses = Pauses(upstreams, owner, self._alarm, keyed=bool(settings.task_key), turn=self.turn)
        self.probes = Probes(
            upstreams, providers, owner, keyed=bool(settings.task_key), elsewhere=self._elsewhere, turn=self.turn
        )  # fmt: skip
        self.execution = Execution(store, self._retrying, settings, self.pauses.refused)
        self._runs = Runs(
            settings,
            owner,
            self._alarm,
            self.totals,
            make_runner=make_runner,
            jobs=jobs,
            tell=self.execution.tell,
            ended=self._ended,
            given_up=self._given_up,
        )
        self.runner = self._runs.runner
        self._wake: Entry | None = None
        self._wake_ns = 0
        self._put_back: Entry | None = None
        self._turning = False
        # Orders that left the parked ones and for which the store has not answered: nothing runs that could be stopped.
        self._asked: set[int] = set()
        # The order that was received last.
        self.taken: Order | None = None
        # Set by the step: Celery's consumer, and how many orders are received beyond those that run.
        self.consumer: Any = None
        self.ahead = 0

    # --- received -------------------------------------------------------------------------------------------------

    def receive(self, request: Any, not_before_ns: int = 0) -> bool:
        """Take over what Celery's strategy would send to the pool, at once or when its time has come, monotonic ns.

        False: it waits or runs here no longer.
        """
        self.totals.received += 1
        try:
            order = self._reading.order(request)
        except Exception:
            task_ready(request)  # it becomes no order: Celery's tables have it already
            raise
        order.not_before_ns = max(not_before_ns, order.begins_from_ns(time.monotonic_ns()))
        self.taken = order
        if not self.settlement.waits(order):
            self._admit(order)
        return order.stage in (Stage.PARKED, Stage.RUNNING)

    def postpone(self, message: Any, tasks: Container[str]) -> bool:
        """Send an order away whose time is far off, before Celery reads it; False: it is received as any other."""
        found = self._reading.far_off(message, self.settings.task_parked_most_s, tasks)
        if found is None or self.settlement.is_leaving(found[0]) or self.parked.known(found[0].identity) is not None:
            return False
        self.totals.received += 1
        self._far_off(*found)
        self._make_room()
        return True

    def _admit(self, order: Order) -> None:
        known = self.parked.known(order.identity)
        if known is not None:
            _again(known, order)
        elif (
            not self.settlement.done_here(order) and not self.settlement.condemned(order) and not self._too_often(order)
        ):
            if order.not_before_ns:
                self._early(order, order.not_before_ns)
            else:
                self.parked.arrive(order)
            self.turn()

    def _early(self, order: Order, at_ns: int) -> None:
        """Keep it until its time, or send it away until then; a message must not stay here for long."""
        left_s = (at_ns - time.monotonic_ns()) / 1e9
        if left_s > self.settings.task_parked_most_s:
            self._far_off(order, left_s)
        else:
            self._keep(order, at_ns)

    def _far_off(self, order: Order, left_s: float) -> None:
        self.settlement.give_back(order, "its time is far off", left_s - self.settings.task_parked_most_s / 2)

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
        self._make_room()

    def _make_room(self) -> None:
        """Receive more while a slot is free: what waits here then waits for its key or its time, not for a slot.

        So a slow key's orders keep nobody's from being received, and an order that would wait for a slot waits in its
        queue: other workers may take it, its priority counts, and the queue's length counts it.
        """
        qos = self.consumer.qos if self.consumer is not None else None
        if qos is None or not self._grows:
            return
        settings = self.settings
        least, wanted = settings.task_slots + self.ahead, len(self.parked) + self.settlement.leaving
        if self.parked.running < settings.task_slots:
            wanted += max(1, self.ahead)
        wanted = min(wanted, settings.parked_most + _TIMED_MOST + least)
        target = least + max(0, -((least - wanted) // _STEP * _STEP))
        more = target - qos.value
        if more > 0 or more <= -2 * _STEP or (more and target == least):
            (qos.increment_eventually if more > 0 else qos.decrement_eventually)(abs(more))

    @property
    def _grows(self) -> bool:
        """The broker takes another prefetch count while it delivers: RabbitMQ's quorum queues do not."""
        consumer = self.consumer
        if consumer is None or not consumer.connection:
            return True
        return bool(consumer.qos_global or consumer.connection.transport.driver_type != "amqp")

    def _too_often(self, order: Order) -> bool:
        """Whether a message goes elsewhere because it was delivered before: it may have ended the worker that took it.

        Quorum queues count deliveries, the store counts attempts. Without both, a message that comes again is
        published again with its count, and the old one acknowledged.
        """
        headers = order.request.request_dict
        count = headers.get(_DELIVERY_COUNT)
        counted = isinstance(count, int) or self.store is not None
        deliveries = count if isinstance(count, int) else order.deliveries
        if deliveries >= self.settings.task_deliveries:
            said = f"delivered {deliveries + 1} times"
            self.settlement.bury(order, "deliveries", said, WorkerLostError(said))
            return True
        if counted or not order.redelivered:
            return False
        self.settlement.count(order)
        return True

    def bury_message(self, message: Any, reason: str, error: BaseException) -> None:
        """Send what never became an order to the dead letters; waiters for its result get this error."""
        self.totals.received += 1
        self.settlement.bury(self._reading.unreadable(message), "malformed", reason, error)

    def return_message(self, message: Any, reason: str, error: BaseException) -> None:
        """Back to the broker, for another version of the application, until it has come too often."""
        self.totals.received += 1
        order = self._reading.unreadable(message)
        returns = message.headers.get(RETURNS)
        if isinstance(returns, int) and returns >= self.settings.task_deliveries:
            self.settlement.bury(order, "unregistered", reason, error)
        else:
            self.settlement.give_back(order, reason)

    # --- begun, and not begun ---------------------------------------------------------------------------------------

    def _begin(self, order: Order, start: Start) -> None:
        if self._stopped(order):
            return
        left_ns = time.monotonic_ns()
        if self.execution.ask(order, lambda: self.owner.post(lambda: self._told(order, start, left_ns))):
            self._asked.add(order.number)
        else:
            self._run(order, start)

    def _told(self, order: Order, start: Start, left_ns: int) -> None:
        """The store has answered for an order that is about to run."""
        self._asked.discard(order.number)
        if self._stopped(order):
            self.turn()
        else:
            self._run(order, start, left_ns)

    def _run(self, order: Order, start: Start, left_ns: int = 0) -> None:
        if not order.request.task.acks_late:
            order.delivery.ack()
        self._runs.begin(order, start, left_ns)

    def _no_room(self, order: Order) -> None:
        after_s = self._return_pacing.after_s(order.key)
        if self._stays(order):
            self._keep(order, time.monotonic_ns() + int(after_s * 1e9))
        else:
            self.settlement.give_back(order, "no room", after_s)

    def _stays(self, order: Order) -> bool:
        """Nobody but this process knows that it is done."""
        return order.kept is not None and self.store is None

    def _too_late(self, order: Order) -> None:
        if not order.expires_at or not self._stopped(order):
            said = "its deadline passed while it waited"
            self.settlement.bury(order, "deadline", said, Dead(said))

    def _stopped(self, order: Order) -> bool:
        """Settle an order that is not to begin: it was revoked, it has expired, or it does not say what Celery asks.

        One that is done begins once more only to be written down.
        """
        if order.kept is not None:
            return False
        unreadable = None
        try:
            if not order.request.revoked():
                return False
        except Exception as error:  # Celery looks at headers here that are no one's word but the publisher's
            unreadable = error
        self.execution.untaken(order)
        self.parked.ended(order, CallOutcome.CANCELLED)
        if unreadable is None:
            self._revoked(order)
        else:
            said = f"it cannot be read: {self.execution.said(unreadable)}"
            self.settlement.bury(order, "malformed", said, unreadable)
        return True

    def discarded(self, request: Any) -> None:
        """Settle what Celery has found revoked or expired on receipt."""
        self.totals.received += 1
        order = self._reading.discarded(request)
        known = self.parked.known(order.identity)
        if known is not None and (known.stage is Stage.RUNNING or known.kept is not None):
            _again(known, order)
        elif not self.settlement.done_here(order):
            self._revoked(order)
        self._make_room()

    def _revoked(self, order: Order) -> None:
        """Celery has said so of it already, in an event."""
        self.totals.revoked += 1
        self.settlement.revoke(order)

    # --- ended ----------------------------------------------------------------------------------------------------

    def _ended(self, order: Order, result: Result, *, logged: bool = False) -> None:
        failed, value, runtime = result
        order.raised = None  # it holds the run's frames
        if order.answers:
            self.execution.untaken(order)
        if failed:
            # Celery's tracer logs what it sees of a failure.
            self._unsuccessful(order, value, untold=runtime == UNTRACED, logged=logged or runtime != UNTRACED)
        else:
            self.totals.done += 1
            self.parked.ended(order, CallOutcome.OK)
            self.probes.ended(order, well=True)
            self._retrying.succeeded(order.key)
            self._return_pacing.succeeded(order.key)
            self.settlement.settle(order, successful=True)
            tell(order.request, "task-succeeded", result=value, runtime=runtime)
        self.turn()

    def _given_up(self, order: Order, reason: str) -> None:
        raised = order.raised  # asked first: its run sets it after what the store is to be told
        self.execution.tell(order, lambda _error: None)  # its run may be ended before it does
        if raised is None:
            self.execution.in_doubt(order, reason)
        if order.retried or order.kept is not None or raised is not None:
            # The call is over: the store, the broker or the result backend is waited for.
            self._ended(order, (1, raised or TimeLimitExceeded(reason), UNTRACED), logged=True)
            return
        self.parked.ended(order, CallOutcome.TIMED_OUT)
        self.probes.ended(order, well=False)
        order.note("unknown", reason)
        at_ns = self._retrying.again_ns(order, self.settings.task_attempts)
        if at_ns is None:
            word = self._spent(order, self.settings.task_attempts)
            self.settlement.bury(order, word, reason, TimeLimitExceeded(reason), logged=True)
        elif order.delivery.stale:
            forgotten(order)
        else:
            self.totals.retried += 1
            self._later(order, at_ns)
        self.turn()

    def _unsuccessful(self, order: Order, info: Any, *, untold: bool, logged: bool) -> None:
        error: Any = info.exception if isinstance(info, ExceptionInfo) else info
        if isinstance(error, ExceptionWithTraceback):
            error = error.exc
        request = order.request
        outcome = _outcome(order, error)
        self.parked.ended(order, outcome)
        self.probes.ended(order, well=outcome is CallOutcome.OK)
        if order.kept is not None:
            order.deadline_at = order.expires_at = 0.0  # they are for its call, which is over
        if request._already_revoked and order.kept is None:
            self._revoked(order)
        elif isinstance(error, Again):
            self._once_more(order, error)
        elif isinstance(error, Retry) or order.retried:
            # Its copy, with the next number of retries, was published and confirmed by the task.
            self.totals.retried += 1
            self.settlement.settle(order)
            why = error.exc if isinstance(error, Retry) else error
            tell(request, "task-retried", exception=repr(why), traceback=str(getattr(info, "traceback", "")))
        elif order.kept is not None and not isinstance(error, (Ignore, Reject)) and self._followed(order, error):
            pass
        elif _is_answer(order, error):
            self.totals.failed += 1
            unwritten = not isinstance(error, Ignore) and (untold or order.failure_written is False)
            self.settlement.answer(order, error if unwritten else None)
            tell(request, "task-failed", exception=repr(error), traceback=str(getattr(info, "traceback", "")))
        elif isinstance(error, Reject) and error.requeue:
            # At once, as with Celery; one that goes on rejecting waits, or it would be all that a worker does.
            self.settlement.give_back(order, "the task rejected it, to be queued again", at_once=order.returns == 0)
        else:
            order.note("failed", self.execution.said(error))
            untold = untold or isinstance(error, Reject) or order.failure_written is False
            logged = logged and not isinstance(error, Reject)  # to Celery a rejection is no error
            self.settlement.bury(order, *self._death(order, error), error if untold else None, logged=logged)
            tell(request, "task-failed", exception=repr(error), traceback=str(getattr(info, "traceback", "")))

    def _followed(self, order: Order, error: BaseException) -> bool:
        """Let what follows the task be tried again: it had its effect, and is not called again for that."""
        waits = isinstance(error, TimeLimitExceeded) or away(order.request.task.app, error)
        order.attempts += not waits
        order.writings += 1
        at_ns = self._retrying.again_ns(order, 0 if waits else self.settings.task_attempts, writings=order.writings)
        if at_ns is None:
            return False
        self.totals.retried += 1
        order.note("done", f"what follows it failed: {self.execution.said(error)}")
        self._later(order, at_ns)
        return True

    def _once_more(self, order: Order, again: Again) -> None:
        if order.delivery.stale and order.kept is None:
            forgotten(order)
            return  # the broker has it: the next worker runs it
        if again.counted:
            self.totals.retried += 1
            order.note("unknown" if order.late else "failed", again.why)
        self._later(order, again.at_ns)

    def _later(self, order: Order, at_ns: int) -> None:
        """Keep it until its next attempt, or return it until then."""
        order.not_before_at = time.time() + (at_ns - time.monotonic_ns()) / 1e9
        self._keep(order, at_ns)

    def _keep(self, order: Order, at_ns: int) -> None:
        """Keep it until its time; where it has been here for long, or too many wait, return it."""
        left_s = (at_ns - time.monotonic_ns()) / 1e9
        stays = self._stays(order)
        if at_ns - order.received_ns > self.settings.task_parked_most_s * 1e9 and not stays:
            self.settlement.give_back(order, "it has been here for long", left_s)
        elif stays or self.parked.between < (_TIMED_MOST if self._grows else self.ahead // 2):
            reserved(order)
            self.parked.later(order, at_ns)
        else:
            self.settlement.give_back(order, "no room until its time", left_s)

    def _death(self, order: Order, error: BaseException) -> tuple[str, str]:
        """A word for why, and a sentence."""
        if isinstance(error, Reject):
            if isinstance(error.reason, BaseException):
                return "rejected", self.execution.said(error.reason)
            said = str(error.reason or "")[: self.settings.task_reason_characters]
            return "rejected", said or "the task rejected it"
        if isinstance(error, Dead):
            return error.reason, str(error)
        attempts = self.execution.attempts_of(order, error)
        return ("failed" if attempts == 1 else self._spent(order, attempts)), self.execution.said(error)

    def _spent(self, order: Order, attempts: int) -> str:
        """What was spent that there is no further attempt: the deadline too, where the next one would be past it."""
        if order.deadline_at and self._retrying.attempts(order) < attempts:
            return "deadline"
        return "attempts"

    # --- connections and the end -----------------------------------------------------------------------------------

    def disconnected(self) -> None:
        """Forget what the broker has taken back; what runs or is done goes on. Redis takes nothing back."""
        if self.line.leases is None:
            self.line.lost()
            self._forget_stale()

    def connected(self, channel: Any) -> None:
        """Redis: go on with what is still this worker's. The first time it has nothing."""
        if self.line.leases is None:
            return
        if gone := self.line.leases.take_over(channel):
            _log.warning(
                "Redis has lost %d orders that this worker had, or has given them to others: those that have not begun "
                "are forgotten (hint: appendonly yes)",
                gone,
            )
            self._forget_stale()
        for order in self.parked.waiting():
            reserved(order)  # with a connection Celery empties its tables

    def _forget_stale(self) -> None:
        for order in list(self.parked.waiting()):
            if order.delivery.stale and order.kept is None:
                self.parked.withdraw(order)
                forgotten(order)
        for order in self.parked:
            order.copies = [copy for copy in order.copies if not copy.delivery.stale]

    def give_all_back(self) -> int:
        """Return unstarted orders now; nothing starts afterwards. Gives how many."""
        self.parked.open = self.settlement.results.patient = False
        if self.line.leases is not None:
            self.line.leases.ending = True
        orders = list(self.parked.waiting())
        for order in orders:
            self.parked.withdraw(order)
            self.settlement.requeue(order)
        self.totals.given_back += len(orders)
        return len(orders)

    def put_back(self) -> None:
        """Where the workers put back what waits at the broker: now and again."""
        if self._put_back is not None:
            self._put_back.cancel()
        queues = self.settlement.queues
        after_s = queues.put_back() if queues is not None else None
        if after_s is not None:
            self._put_back = self._alarm.at(time.monotonic_ns() + int(after_s * 1e9), self.put_back)

    def done(self, number: str) -> bool:
        """Give whether the task of this id is done, and waits here to be written down."""
        return any(order.kept is not None and order.request.id == number for order in self.parked)

    def leaving(self) -> int:
        """Give how many orders are on their way to the broker."""
        return self.settlement.leaving

    def untold(self) -> bool:
        """Whether orders are on their way to the broker, or acknowledgements that Redis has not heard."""
        return self.leaving() > 0 or (self.line.leases is not None and not self.line.leases.tell())

    def scheduled(self) -> list[dict[str, object]]:
        """Give the orders that wait for their time, for `inspect scheduled`."""
        return scheduled(self.parked.waiting())

    def _elsewhere(self, name: str, visit: Callable[[Any], object]) -> None:
        if self.settlement.queues is not None:
            self.settlement.queues.visit(name, visit)

    def stop_order(self, number: int) -> None:
        """Stop one running order as its soft limit would."""
        for order in self.parked.in_progress():
            if order.number == number and number not in self._asked:
                self._runs.soften(order, order.generation, 0)

    def close(self) -> None:
        """Leave nothing behind but threads that will not end."""
        self.settlement.stop()
        self.runner.close()
        if self.store is not None:
            self.store.close(_STORE_S)

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


def _again(known: Order, order: Order) -> None:
    """The same once more: the broker took the message back with a connection, or there are two of it."""
    if known.delivery.stale:
        known.delivery = order.delivery
    else:
        known.copies.append(order)


def _is_answer(order: Order, error: BaseException) -> bool:
    return isinstance(error, (Ignore, *expected(order.request.task)))


def _outcome(order: Order, error: BaseException) -> CallOutcome:
    """What a failed run says of its upstream."""
    if order.kept is not None:
        return CallOutcome.OK
    if isinstance(error, Again) and not error.counted:
        return CallOutcome.CANCELLED
    if isinstance(error, Reject | Dead):
        return CallOutcome.CANCELLED
    if _is_answer(order, error):
        return CallOutcome.OK
    return CallOutcome.TIMED_OUT if order.late else outcome_of(error)
