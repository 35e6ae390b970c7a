"""The one place that does what `transitions` asks for. Everything here runs on the owner of the channel.

An order's message is acknowledged, given back and published here and nowhere else.
"""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from greenlane_work.headers import DUE, Death
from greenlane_work.keys import checked_reason
from greenlane_work.limits import CallOutcome, UpstreamRule
from greenlane_work.order import Order, Run
from greenlane_work.settings import WorkSettings
from greenlane_work.worker.adapter import forgotten, reserved, tell
from greenlane_work.worker.lifecycle import Burial, Confirmation, Copy, Do, Effect, Event, Keep, Place, Start, Written
from greenlane_work.worker.memory import Memory
from greenlane_work.worker.owner import Alarm, Entry, Owner
from greenlane_work.worker.parking import Parking
from greenlane_work.worker.probes import Probes
from greenlane_work.worker.queues import Queues
from greenlane_work.worker.results import TRIED_NS, Results
from greenlane_work.worker.retries import Retrying
from greenlane_work.worker.return_pacing import ReturnPacing
from greenlane_work.worker.totals import Totals

if TYPE_CHECKING:
    from greenlane_work.worker.ledger import Ledger

__all__ = ["Effects"]

_log = logging.getLogger("greenlane.work")


class Effects:
    """See the module. Where something takes time an event follows, which is posted.

    Args:
        events: takes an event of an order, on the owner.
        admit: takes over an order that waited for one that has left, or was published twice.
        begin: asks the store for an order, and lets it run.
    """

    def __init__(
        self,
        settings: WorkSettings,
        owner: Owner,
        alarm: Alarm,
        totals: Totals,
        *,
        events: Callable[[Order, Event], object],
        admit: Callable[[Order], object],
        begin: Callable[[Order, Start], object],
        parked: Parking,
        ledger: Ledger | None,
        retrying: Retrying,
        probes: Probes,
    ) -> None:
        self._owner = owner
        self._alarm = alarm
        self._totals = totals
        self._events = events
        self._admit = admit
        self._parked = parked
        self._ledger = ledger
        self._retrying = retrying
        self._probes = probes
        self.pacing = ReturnPacing(UpstreamRule.keys_most)
        # As long as it may be parked, if that is less: so much is counted for it where Redis gives messages to others.
        self._result_ns = min(TRIED_NS, round(settings.task_parked_most_s * 1e9))
        self.memory = Memory()
        # Orders that wait for their end to be written down, and what rings when that takes too long.
        self._unwritten: dict[Order, Entry] = {}
        self.results = Results()
        # Set by the step, at each connection.
        self.queues: Queues | None = None
        self._put_back: Entry | None = None
        ways: dict[Do, Callable[[Order, Any], object]] = {
            Do.COUNT: self._count, Do.INCREMENT: self._increment, Do.NOTE: self._note, Do.TELL: self._tell,
            Do.PARK: self._park, Do.POSTPONE: self._postpone, Do.WITHDRAW: self._withdraw,
            Do.BEGIN: begin, Do.RELEASE: self._release, Do.HOLD: self._hold, Do.LET_IN: self._let_in,
            Do.CONDEMN: self._condemn, Do.WRITE: self._write, Do.PUBLISH: self._publish,
            Do.ACKNOWLEDGE: self._acknowledge, Do.REQUEUE: self._requeue, Do.FORGET: self._forget,
        }  # fmt: skip
        self._ways: Final = ways

    def carry_out(self, order: Order, effects: tuple[Effect, ...]) -> None:
        """Do them, in this order."""
        ways = self._ways
        for do, what in effects:
            ways[do](order, what)

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

    def _count(self, _order: Order, name: str) -> None:
        setattr(self._totals, name, getattr(self._totals, name) + 1)

    def _increment(self, order: Order, name: str) -> None:
        setattr(order, name, getattr(order, name) + 1)

    def _note(self, order: Order, tried: tuple[str, str]) -> None:
        order.note(*tried)

    def _tell(self, order: Order, said: tuple[str, dict[str, Any]]) -> None:
        tell(order.request, said[0], **said[1])

    # --- parked and begun -------------------------------------------------------------------------------------------

    def _park(self, order: Order, from_ns: int) -> None:
        if from_ns:
            reserved(order)
            self._parked.later(order, from_ns)
        else:
            self._parked.arrive(order)

    def _postpone(self, order: Order, at_ns: int) -> None:
        order.not_before_at = time.time() + (at_ns - time.monotonic_ns()) / 1e9

    def _withdraw(self, order: Order, _: None) -> None:
        self._parked.withdraw(order)

    def _release(self, order: Order, ended: tuple[Run | None, CallOutcome | None]) -> None:
        run, call = ended
        self._parked.ended(order, CallOutcome.CANCELLED if call is None else call)  # OK is 0
        if run is not None:
            if run.answer is not None and self._ledger is not None:
                self._ledger.untaken(run)
            if call is not None and run.probes:
                self._probes.ended(run, well=call is CallOutcome.OK)

    # --- written down -----------------------------------------------------------------------------------------------

    def _condemn(self, order: Order, burial: Burial) -> None:
        self.memory.condemn(order, burial)
        level = logging.WARNING if burial.logged else logging.ERROR
        said = (order.id, order.key, burial.reason, burial.said)
        _log.log(level, "order %s at %r goes to the dead letters (%s): %s", *said)

    def _write(self, order: Order, failed: tuple[BaseException | None, Run | None]) -> None:
        """An event follows once it is written down, or after a while without it: it may be hours until it can be."""
        self._unwritten[order] = self._alarm.at(time.monotonic_ns() + self._result_ns, lambda: self._late(order))

        def then() -> None:
            self._owner.post(lambda: self._written(order))

        stopped = getattr(order.request, "greenlane_stopped", None)
        error, run = failed
        if error is not None:
            self.results.failed(order, run, error, then)
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
            self._events(order, Written())

    # --- to the broker ----------------------------------------------------------------------------------------------

    def _publish(self, order: Order, copy: Copy) -> None:
        """A copy; when the broker has it, or never will, an event follows."""
        queues, delivery = self.queues, order.delivery
        assert queues is not None, "a delivery came before its connection"
        queue: Callable[[str], Any] = queues.own
        more: dict[str, object] = {}
        if copy.place is Place.DEAD:
            queue, name = queues.dead, queues.name(delivery.message)
            said, died_s = checked_reason(copy.said), round(time.time(), 3)
            more |= Death(copy.reason, said, name, died_s, order.id, order.name, order.history).headers()
        elif copy.place is Place.LATER:
            wait_s = queues.wait_s(order.returns, copy.least_s)
            queue, more[DUE] = functools.partial(queues.later, seconds=wait_s), round(time.time() + wait_s, 3)

        def done(published: bool) -> None:
            self._owner.post(lambda: self._events(order, Confirmation(published)))

        headers = {**order.headers(), **more}
        queues.send(delivery.message, headers, queue, still=lambda: not delivery.stale, done=done)

    def _acknowledge(self, order: Order, keep: Keep) -> None:
        self.memory.ended(order, keep)
        if keep in (Keep.ENDED, Keep.DONE):
            order.request.acknowledged = True
        if keep is Keep.DONE:
            self._retrying.succeeded(order.key)
            self.pacing.succeeded(order.key)
        forgotten(order, successful=keep is Keep.DONE)
        order.delivery.ack()
        copies, order.copies = order.copies, []
        for copy in copies:
            if copy.redelivered:
                self._totals.acked_again += 1
                copy.delivery.ack()
            else:  # somebody published it twice: the store knows what that means
                self._take_over(copy)

    def _requeue(self, order: Order, _: None) -> None:
        forgotten(order)
        for each in (order, *order.copies):
            each.delivery.requeue()

    def _forget(self, order: Order, _: None) -> None:
        forgotten(order)

    def _hold(self, order: Order, _: None) -> None:
        self.memory.hold(order)

    def _let_in(self, order: Order, _: None) -> None:
        for each in self.memory.let_in(order):
            self._take_over(each)

    def _take_over(self, order: Order) -> None:
        # In the next turn: begun before the other one's acknowledgement is sent, it could end this worker with both.
        self._owner.post_behind(lambda: order.delivery.stale or self._admit(order))
