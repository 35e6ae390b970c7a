"""The one place that does what `transitions` asks for. Everything here runs on the owner of the channel.

An order's message is acknowledged, given back and published here and nowhere else.
"""

from __future__ import annotations

import functools
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from greenlane_work.headers import DUE, Death
from greenlane_work.keys import checked_reason
from greenlane_work.limits import CallOutcome, UpstreamRule
from greenlane_work.order import Order
from greenlane_work.settings import WorkSettings
from greenlane_work.worker import lifecycle as life
from greenlane_work.worker.adapter import forgotten, reserved, tell
from greenlane_work.worker.execution import Execution
from greenlane_work.worker.memory import Memory
from greenlane_work.worker.owner import Alarm, Entry, Owner
from greenlane_work.worker.parking import Parking
from greenlane_work.worker.probes import Probes
from greenlane_work.worker.queues import Queues
from greenlane_work.worker.results import TRIED_NS, Results
from greenlane_work.worker.retries import Retrying
from greenlane_work.worker.return_pacing import ReturnPacing
from greenlane_work.worker.totals import Totals

__all__ = ["Effects"]

_log = logging.getLogger("greenlane.work")


class Effects:
    """See the module. Where something takes time an event follows, which is posted.

    Args:
        events: takes an event of an order, on the owner.
        begin: asks the store for an order, and lets it run.
    """

    def __init__(
        self,
        settings: WorkSettings,
        owner: Owner,
        alarm: Alarm,
        totals: Totals,
        *,
        events: Callable[[Order, life.Event], object],
        begin: Callable[[Order, life.Start], object],
        parked: Parking,
        execution: Execution,
        retrying: Retrying,
        probes: Probes,
    ) -> None:
        self._owner = owner
        self._alarm = alarm
        self._totals = totals
        self._events = events
        self._begin = begin
        self._parked = parked
        self._execution = execution
        self._retrying = retrying
        self._probes = probes
        self.pacing = ReturnPacing(UpstreamRule.keys_most)
        # As long as it may be parked, if that is less: so much is counted for it where Redis gives messages to others.
        self._result_ns = min(TRIED_NS, round(settings.task_parked_most_s * 1e9))
        self.memory = Memory()
        # Orders to be taken over: they waited for one that has left, or were published twice.
        self.admitted: deque[Order] = deque()
        # Orders that wait for their end to be written down, and what rings when that takes too long.
        self._unwritten: dict[Order, Entry] = {}
        self.results = Results()
        # Set by the step, at each connection.
        self.queues: Queues | None = None
        self._put_back: Entry | None = None
        ways: dict[type[Any], Callable[[Order, Any], object]] = {
            life.Count: self._count, life.Increment: self._increment, life.Note: self._note, life.Tell: self._tell,
            life.Park: self._park, life.Postpone: self._postpone, life.Withdraw: self._withdraw,
            life.Begin: self._start, life.Release: self._release,
            life.Hold: self._hold, life.LetIn: self._let_in,
            life.Condemn: self._condemn, life.Write: self._write, life.Publish: self._publish,
            life.Acknowledge: self._acknowledge, life.Requeue: self._requeue, life.Forget: self._forget,
        }  # fmt: skip
        self._ways: Final = ways

    def carry_out(self, order: Order, effect: life.Effect) -> None:
        """Do it."""
        self._ways[type(effect)](order, effect)

    @property
    def unwritten(self) -> int:
        """Orders that wait for their end to be written down."""
        return len(self._unwritten)

    def stop_waiting(self) -> None:
        """Let what waits for its end to be written down go on without it."""
        for order in tuple(self._unwritten):
            self._late(order)

    def put_back(self) -> None:
        """Where the workers put back what waits at the broker: now and again."""
        if self._put_back is not None:
            self._put_back.cancel()
        after_s = self.queues.put_back() if self.queues is not None else None
        if after_s is not None:
            self._put_back = self._alarm.at(time.monotonic_ns() + int(after_s * 1e9), self.put_back)

    def stop(self) -> None:
        """Send nothing more."""
        self.results.stop()
        if self.queues is not None:
            self.queues.stop()

    # --- counted and noted ------------------------------------------------------------------------------------------

    def _count(self, _order: Order, effect: life.Count) -> None:
        setattr(self._totals, effect.name, getattr(self._totals, effect.name) + 1)

    def _increment(self, order: Order, effect: life.Increment) -> None:
        setattr(order, effect.name, getattr(order, effect.name) + 1)

    def _note(self, order: Order, effect: life.Note) -> None:
        order.note(effect.outcome, effect.why)

    def _tell(self, order: Order, effect: life.Tell) -> None:
        tell(order.request, effect.event, **effect.fields)

    # --- parked and begun -------------------------------------------------------------------------------------------

    def _park(self, order: Order, effect: life.Park) -> None:
        if effect.from_ns:
            reserved(order)
            self._parked.later(order, effect.from_ns)
        else:
            self._parked.arrive(order)

    def _postpone(self, order: Order, effect: life.Postpone) -> None:
        order.not_before_at = time.time() + (effect.at_ns - time.monotonic_ns()) / 1e9

    def _withdraw(self, order: Order, _effect: life.Withdraw) -> None:
        self._parked.withdraw(order)

    def _start(self, order: Order, effect: life.Begin) -> None:
        self._begin(order, effect.start)

    def _release(self, order: Order, effect: life.Release) -> None:
        self._parked.ended(order, CallOutcome.CANCELLED if effect.call is None else effect.call)  # OK is 0
        if effect.run is not None:
            self._execution.untaken(effect.run)
            if effect.call is not None:
                self._probes.ended(effect.run, well=effect.call is CallOutcome.OK)

    # --- written down -----------------------------------------------------------------------------------------------

    def _condemn(self, order: Order, effect: life.Condemn) -> None:
        burial = effect.burial
        self.memory.condemn(order, burial)
        level = logging.WARNING if burial.logged else logging.ERROR
        said = (order.id, order.key, burial.reason, burial.said)
        _log.log(level, "order %s at %r goes to the dead letters (%s): %s", *said)

    def _write(self, order: Order, effect: life.Write) -> None:
        """An event follows once it is written down, or after a while without it: it may be hours until it can be."""
        self._unwritten[order] = self._alarm.at(time.monotonic_ns() + self._result_ns, lambda: self._late(order))

        def then() -> None:
            self._owner.post(lambda: self._written(order))

        stopped = getattr(order.request, "greenlane_stopped", None)
        if effect.error is not None:
            self.results.failed(order, effect.run, effect.error, then)
        elif stopped is not None:
            stopped.add_done_callback(lambda _: then())
        else:
            self.results.revoked(order, then)

    def _late(self, order: Order) -> None:
        _log.warning("order %s does not wait longer for its result to be written down", order.id)
        self._written(order)

    def _written(self, order: Order) -> None:
        entry = self._unwritten.pop(order, None)
        if entry is not None:
            entry.cancel()
            self._events(order, life.Written())

    # --- to the broker ----------------------------------------------------------------------------------------------

    def _publish(self, order: Order, effect: life.Publish) -> None:
        """A copy; when the broker has it, or never will, an event follows."""
        queues, delivery, copy = self.queues, order.delivery, effect.copy
        assert queues is not None, "a delivery came before its connection"
        queue: Callable[[str], Any] = queues.own
        more: dict[str, object] = {}
        if copy.place is life.Place.DEAD:
            queue, name = queues.dead, queues.name(delivery.message)
            said, died_s = checked_reason(copy.said), round(time.time(), 3)
            more |= Death(copy.reason, said, name, died_s, order.id, order.name, order.history).headers()
        elif copy.place is life.Place.LATER:
            wait_s = queues.wait_s(order.returns, copy.least_s)
            queue, more[DUE] = functools.partial(queues.later, seconds=wait_s), round(time.time() + wait_s, 3)

        def done(published: bool) -> None:
            self._owner.post(lambda: self._events(order, life.Confirmation(published)))

        headers = {**order.headers(), **more}
        queues.send(delivery.message, headers, queue, still=lambda: not delivery.stale, done=done)

    def _acknowledge(self, order: Order, effect: life.Acknowledge) -> None:
        self.memory.ended(order, effect.keep)
        if effect.keep is life.Keep.ENDED:
            order.request.acknowledged = True
        if effect.successful:
            self._retrying.succeeded(order.key)
            self.pacing.succeeded(order.key)
        forgotten(order, successful=effect.successful)
        order.delivery.ack()
        copies, order.copies = order.copies, []
        for copy in copies:
            if copy.redelivered:
                self._totals.acked_again += 1
                copy.delivery.ack()
            else:  # somebody published it twice: the store knows what that means
                self.admitted.append(copy)

    def _requeue(self, order: Order, _effect: life.Requeue) -> None:
        forgotten(order)
        order.delivery.requeue()
        for copy in order.copies:
            copy.delivery.requeue()

    def _forget(self, order: Order, _effect: life.Forget) -> None:
        forgotten(order)

    def _hold(self, order: Order, _effect: life.Hold) -> None:
        self.memory.hold(order)

    def _let_in(self, order: Order, _effect: life.LetIn) -> None:
        self.admitted.extend(self.memory.let_in(order))
