"""An order's way through the worker: what happens to it becomes an event, `transitions` decides, `effects` does it.

Everything here runs on the owner of the channel. The collaborators answer when they are asked, or post what has become
of an order; none of them knows the flow.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Container, Mapping
from typing import Any, Final

from celery.worker.state import task_ready

from greenlane._native import Upstreams
from greenlane_work.headers import RETURNS, count_of
from greenlane_work.keys import KeyFunction
from greenlane_work.order import Finished, Order, Parked, Received, Run, Running
from greenlane_work.settings import WorkSettings
from greenlane_work.worker import lifecycle as life
from greenlane_work.worker import transitions
from greenlane_work.worker.adapter import reserved, scheduled
from greenlane_work.worker.delivery import Line
from greenlane_work.worker.effects import Effects
from greenlane_work.worker.execution import Execution
from greenlane_work.worker.intake import Intake
from greenlane_work.worker.jobs import RecordedJobs
from greenlane_work.worker.messages import OrderReader
from greenlane_work.worker.outcomes import Dead
from greenlane_work.worker.owner import Alarm, Entry, Owner
from greenlane_work.worker.parking import Begins, Parking
from greenlane_work.worker.pauses import Pauses
from greenlane_work.worker.probes import Probes
from greenlane_work.worker.retries import Retrying
from greenlane_work.worker.runs import Result, Runner, Runs, Serve
from greenlane_work.worker.totals import Totals
from greenlane_work.worker.verdicts import Verdicts, revocation, stopped

__all__ = ["OrderFlow"]

_log = logging.getLogger("greenlane.work")

_SETTLING: Final = life.Settling()
#: At the end the store has this long to write down what it was told.
_STORE_S: Final = 3.0


class OrderFlow:
    """See the module. Made by the pool; the consumer's step reports connections."""

    #: The order that was received last.
    taken: Order | None = None
    _wake: Entry | None = None
    _wake_ns = 0
    _turning = _turns = False

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
        """Args: `shared` gives a key's limit over all workers; `providers` decides for those of keys in two parts."""
        self.settings, self.owner, self.store = settings, owner, store
        owner.after = self.turn
        self.line = Line()
        self.totals = Totals()
        self._most_ns = round(settings.task_parked_most_s * 1e9)
        self.parked = Parking(upstreams, most_ns=self._most_ns, stored=store is not None)
        self.parked.providers = providers
        alarm = self._alarm = Alarm(owner)
        self.intake = Intake(settings, self.parked)
        self._reading = OrderReader(self.line, self.totals, key_of=key_of, orders_of=orders_of)
        retrying = Retrying(settings, self.totals, stored=store is not None)
        if shared is not None:
            from greenlane_work.worker.shares import SharedLimits  # it loads the store

            self.parked.shares = SharedLimits(store, upstreams, owner, alarm, limit_of=shared)
        keyed = bool(settings.task_key)
        self.pauses = Pauses(upstreams, owner, alarm, keyed=keyed)
        self.probes = Probes(upstreams, providers, owner, keyed=keyed, elsewhere=self._elsewhere)
        self.execution = Execution(store, retrying, settings, self.pauses.refused, self.totals)
        ledger = self.execution.ledger
        self._verdicts = Verdicts(settings, self.execution, retrying)
        self._runs = Runs(
            settings, owner, alarm, self.totals, make_runner=make_runner, jobs=jobs,
            tell=None if ledger is None else ledger.tell, report=self._ended,
        )  # fmt: skip
        self.runner = self._runs.runner
        self.effects = Effects(
            settings, owner, alarm, self.totals, events=self.apply, admit=self._admit, begin=self._begin,
            parked=self.parked, ledger=ledger, retrying=retrying, probes=self.probes,
        )  # fmt: skip
        self.effects.results.done = self.done
        # Orders for which the store has not answered: nothing runs that could be stopped.
        self._asked: set[int] = set()

    def apply(self, order: Order, event: life.Event) -> None:
        """Let an event have its effects. One that came too late has none."""
        step = transitions.step(order.state, event, lambda: self._context(order))
        if step is None:
            return
        order.state, effects = step
        self.effects.carry_out(order, effects)
        if isinstance(order.state, Finished):
            self.apply(order, _SETTLING)

    def _context(self, order: Order) -> transitions.Context:
        now_ns = time.monotonic_ns()
        return transitions.Context(
            now_ns=now_ns, leaves_ns=order.received_ns + self._most_ns, parked_most_ns=self._most_ns,
            full=self.intake.full, stored=self.store is not None, stale=order.delivery.stale,
        )  # fmt: skip

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
        self.taken = order
        if from_ns := max(not_before_ns, order.begins_from_ns(time.monotonic_ns())):
            order.state = Received(from_ns)
        if not self.effects.memory.waits(order):
            self._admit(order)
            self.turn()
        return isinstance(order.state, Received | Parked | Running)

    def postpone(self, message: Any, tasks: Container[str]) -> bool:
        """Send an order away whose time is far off, before Celery reads it; False: it is received as any other."""
        found = self._reading.far_off(message, self.settings.task_parked_most_s, tasks)
        if found is None:
            return False
        order, left_s = found
        if self.effects.memory.is_leaving(order) or self.parked.known(order.identity) is not None:
            return False
        self.totals.received += 1
        self.apply(order, life.Removal("its time is far off", left_s - self.settings.task_parked_most_s / 2))
        self._make_room()
        return True

    def _admit(self, order: Order) -> None:
        known = self.parked.known(order.identity)
        if known is not None:
            _again(known, order)
        else:
            most = self.settings.task_deliveries
            event = self.effects.memory.judge(order, deliveries_most=most, stored=self.store is not None)
            self.apply(order, event)

    def discarded(self, request: Any) -> None:
        """Settle what Celery has found revoked or expired on receipt."""
        self.totals.received += 1
        order = self._reading.discarded(request)
        known = self.parked.known(order.identity)
        if known is not None and (known.run is not None or known.done is not None):
            _again(known, order)
        else:
            repeats = self.effects.memory.repeats(order)
            self.apply(order, life.Repetition() if repeats else revocation(order))
        self._make_room()

    def bury_message(self, message: Any, reason: str, error: BaseException) -> None:
        """Send what never became an order to the dead letters; waiters for its result get this error."""
        self.totals.received += 1
        self.apply(self._reading.unreadable(message), life.Burial("malformed", reason, error))

    def return_message(self, message: Any, reason: str, error: BaseException) -> None:
        """Back to the broker, for another version of the application, until it has come too often."""
        self.totals.received += 1
        often = count_of(message.headers.get(RETURNS)) >= self.settings.task_deliveries
        self.apply(
            self._reading.unreadable(message),
            life.Burial("unregistered", reason, error) if often else life.Removal(reason),
        )

    # --- begun, and not begun ---------------------------------------------------------------------------------------

    def turn(self) -> None:
        """Let begin what may begin, and go what must leave; be called again when that may change."""
        self._turns = True
        if self._turning:
            return
        self._turning = True
        try:
            while self._turns:
                self._turns = False
                turn = self.parked.turn()
                for order in turn.gone:
                    self._decide(order, self._no_room, order)
                for order in turn.late:
                    self._decide(order, self._late, order)
                for begins in turn.begins:
                    self._decide(begins.order, self._start, begins)
        finally:
            self._turning = False
        self._call_at(turn.wake_ns)
        self._make_room()

    def _decide(self, order: Order, event_of: Callable[[Any], life.Event], decided: Order | Begins) -> None:
        """Those that leave with it are no longer known to any queue."""
        try:
            self.apply(order, event_of(decided))
        except Exception:
            _log.exception("a bug of Greenlane: order %s could neither begin nor leave", order.id)

    def _no_room(self, order: Order) -> life.Event:
        return life.NoRoom(self.effects.pacing.after_s(order.key))

    def _late(self, order: Order) -> life.Event:
        stop = stopped(order, self.execution) if order.expires_at else None
        return stop or life.Lateness(Dead("its deadline passed while it waited"))

    def _start(self, begins: Begins) -> life.Event:
        stop = stopped(begins.order, self.execution)
        self._turns |= stop is not None  # its place is free
        return stop or life.Start(Run(begins.order), begins.start, begins.passed)

    def _begin(self, order: Order, start: life.Start) -> None:
        left_ns = time.monotonic_ns()
        if self.execution.ask(start.run, lambda: self.owner.post(lambda: self._answered(order, start, left_ns))):
            self._asked.add(order.number)
        else:
            self._run(order, start)

    def _answered(self, order: Order, start: life.Start, left_ns: int) -> None:
        """The store has answered for an order that is about to run."""
        self._asked.discard(order.number)
        stop = stopped(order, self.execution)
        if stop is None:
            self._run(order, start, left_ns)
        else:
            self.apply(order, stop)

    def _run(self, order: Order, start: life.Start, left_ns: int = 0) -> None:
        if not order.request.task.acks_late:
            order.delivery.ack()
        self._runs.begin(start.run, start.start, start.passed, left_ns)

    def _ended(self, run: Run, result: Result | str) -> None:
        said = self._verdicts
        self.apply(run.order, said.given_up(run, result) if isinstance(result, str) else said.ended(run, result))

    def stop_order(self, number: int) -> None:
        """Stop one running order as its soft limit would."""
        for order in self.parked.in_progress():
            if order.number == number and number not in self._asked and order.run is not None:
                self._runs.soften(order.run, 0)

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
            self.apply(order, life.Disconnection())
        for order in self.parked:
            order.copies = [copy for copy in order.copies if not copy.delivery.stale]

    def give_all_back(self) -> int:
        """Return unstarted orders now; nothing starts afterwards. Gives how many."""
        self.parked.open = self.effects.results.patient = False
        if self.line.leases is not None:
            self.line.leases.ending = True
        orders = list(self.parked.waiting())
        for order in orders:
            self.apply(order, life.WorkerEnd())
        self.totals.given_back += len(orders)
        return len(orders)

    def done(self, number: str) -> bool:
        """Give whether the task of this id is done, and waits here to be written down."""
        return any(order.done is not None and order.request.id == number for order in self.parked)

    def untold(self) -> bool:
        """Whether orders are on their way to the broker, or acknowledgements that Redis has not heard."""
        return self.effects.memory.leaving > 0 or (self.line.leases is not None and not self.line.leases.tell())

    def scheduled(self) -> list[dict[str, object]]:
        """Give the orders that wait for their time, for `inspect scheduled`."""
        return scheduled(self.parked.timed())

    def _elsewhere(self, name: str, visit: Callable[[Any], object]) -> None:
        if self.effects.queues is not None:
            self.effects.queues.visit(name, visit)

    def close(self) -> None:
        """Leave nothing behind but threads that will not end."""
        self.effects.stop()
        self.runner.close()
        if self.store is not None:
            self.store.close(_STORE_S)

    def _make_room(self) -> None:
        self.intake.make_room(self.effects.memory.leaving)

    def _call_at(self, at_ns: int | None) -> None:
        if at_ns is None or (self._wake is not None and self._wake_ns <= at_ns):
            return
        if self._wake is not None:
            self._wake.cancel()
        self._wake_ns = at_ns
        self._wake = self._alarm.at(at_ns, self._woken)

    def _woken(self) -> None:
        self._wake = None  # the turn follows: see `Owner.after`


def _again(known: Order, order: Order) -> None:
    """The same once more: the broker took the message back with a connection, or there are two of it."""
    if known.delivery.stale:
        known.delivery = order.delivery
    else:
        known.copies.append(order)
