"""How an order leaves this worker: acknowledged, or by a copy that the broker has confirmed.

Its message is acknowledged in no other case than these: it succeeded; it failed with what its task calls an answer
(`throws`), or was revoked; its copy to be run elsewhere or later, or its dead letter, was confirmed by the broker; the
task itself published its retry. A time limit by itself settles nothing.

Everything here runs on the owner of the channel.
"""

from __future__ import annotations

import functools
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from greenlane_work.headers import DUE, Death, Tried
from greenlane_work.keys import checked_reason
from greenlane_work.order import Identity, Order, Stage
from greenlane_work.worker.owner import Alarm, Owner
from greenlane_work.worker.queues import Queues
from greenlane_work.worker.results import TRIED_NS, Results, forgotten
from greenlane_work.worker.totals import Totals

__all__ = ["Settlement"]

_log = logging.getLogger("greenlane.work")

#: Identities of orders that ended here: delivered again, they are acknowledged and not run. Arbitrary; some MB.
_REMEMBERED: Final = 20_000


class Settlement:
    """See the module. `admit` takes over an order that had to wait for another one of its identity."""

    def __init__(
        self, owner: Owner, alarm: Alarm, totals: Totals, admit: Callable[[Order], None], parked_most_s: float
    ) -> None:
        self._owner = owner
        self._alarm = alarm
        self._totals = totals
        self._admit = admit
        # As long as it may be parked, if that is less: so much is counted for it where Redis gives messages to others.
        self._result_ns = min(TRIED_NS, round(parked_most_s * 1e9))
        self._ended: OrderedDict[Identity, None] = OrderedDict()
        # Messages whose copy was confirmed, by `Order.came`: delivered again, it is the copy that counts.
        self._replaced: OrderedDict[tuple[object, ...], None] = OrderedDict()
        # Orders that are to be dead letters, why, and what was tried: delivered again, they are not run again.
        self._condemned: OrderedDict[Identity, tuple[str, str, tuple[Tried, ...]]] = OrderedDict()
        # Orders whose copy is on its way to the broker, and what arrived with the same identity meanwhile.
        self._leaving: dict[Identity, list[Order]] = {}
        # Called, they let their orders wait no longer for their results to be written down.
        self._unwritten: set[Callable[[], None]] = set()
        self.results = Results()
        # Set by the step, at each connection.
        self.queues: Queues | None = None

    @property
    def queues_now(self) -> Queues:
        """The queues of the present connection."""
        assert self.queues is not None, "a delivery came before its connection"
        return self.queues

    @property
    def leaving(self) -> int:
        """Orders whose copy is on its way, or whose failure is being written down."""
        return len(self._leaving)

    @property
    def unwritten(self) -> int:
        """Of these, those that wait for their result to be written down."""
        return len(self._unwritten)

    def stop_waiting(self) -> None:
        """Let what waits for its result to be written down go on without it."""
        for late in tuple(self._unwritten):
            late()

    def stop(self) -> None:
        """Send nothing more."""
        self.results.stop()
        if self.queues is not None:
            self.queues.stop()

    # --- delivered once more ----------------------------------------------------------------------------------------

    def is_leaving(self, order: Order) -> bool:
        """A copy of it is on its way."""
        return order.identity in self._leaving

    def waits(self, order: Order) -> bool:
        """Keep an order back whose copy is on its way: begun now, it could end this worker with both."""
        waiting = self._leaving.get(order.identity)
        if waiting is None:
            return False
        waiting.append(order)
        return True

    def done_here(self, order: Order) -> bool:
        """Acknowledge a message that comes again because its acknowledgement was lost.

        A dead letter that is sent again may be like the message that it came from; only its deadline can have been the
        reason then, and with that it dies once more.
        """
        if not order.redelivered:
            return False
        if order.identity not in self._ended and (order.came not in self._replaced or _late(order)):
            return False
        self._totals.acked_again += 1
        order.stage = Stage.ENDED
        forgotten(order)
        order.delivery.ack()
        return True

    def condemned(self, order: Order) -> bool:
        """Bury an order that comes again because its letter could not be published while it was ours."""
        verdict = self._condemned.get(order.identity) if order.redelivered else None
        if verdict is None:
            return False
        reason, said, order.history = verdict  # its message is the first one's, and tells nothing of what was tried
        self.bury(order, reason, said, logged=True)
        return True

    # --- acknowledged -----------------------------------------------------------------------------------------------

    def settle(self, order: Order, *, successful: bool = False) -> None:
        """Acknowledge: nothing is left to do for this order, and if its message comes again, it is not run again."""
        order.request.acknowledged = True
        _remember(self._ended, order.identity)
        self._acknowledge(order, successful)

    def answer(self, order: Order, error: BaseException | None) -> None:
        """Settle one whose task's answer is a failure, once that is written down. None = it is."""
        if error is None:
            self.settle(order)
        else:
            self._written(order, functools.partial(self.results.failed, order, error), lambda: self._settle_left(order))

    def revoke(self, order: Order) -> None:
        """Settle one that was revoked or has expired, once its result says so."""
        stopped = getattr(order.request, "greenlane_stopped", None)
        if stopped is not None:
            self._written(
                order, lambda then: stopped.add_done_callback(lambda _: then()), lambda: self._settle_left(order)
            )
        elif getattr(order.request, "greenlane_revoked", ""):
            self._written(order, functools.partial(self.results.revoked, order), lambda: self._settle_left(order))
        else:
            self.settle(order)

    def _acknowledge(self, order: Order, successful: bool = False) -> None:
        order.stage = Stage.ENDED
        forgotten(order, successful=successful)
        order.delivery.ack()
        copies, order.copies = order.copies, []
        for copy in copies:
            if copy.redelivered:
                self._totals.acked_again += 1
                copy.delivery.ack()
            else:  # somebody published it twice: the store knows what that means
                self._admit(copy)

    def requeue(self, order: Order) -> None:
        """Give a message that was not begun back to its queue, with all deliveries of it."""
        order.stage = Stage.ENDED
        forgotten(order)
        order.delivery.requeue()
        for copy in order.copies:
            copy.delivery.requeue()

    # --- by a copy --------------------------------------------------------------------------------------------------

    def bury(
        self, order: Order, reason: str, said: str, error: BaseException | None = None, *, logged: bool = False
    ) -> None:
        """To the dead letters, with its history; acknowledged when the broker has it there.

        Args:
            reason: a word for why.
            said: a sentence.
            error: the failure of its task that Celery's tracer has not written down; None = it has, or there is none.
            logged: an error of this death is in the log already. Who counts errors, as Sentry does, counts it once.
        """
        self._totals.dead += 1
        self._condemned[order.identity] = (reason, said, order.history)
        if len(self._condemned) > _REMEMBERED:
            self._condemned.popitem(last=False)
        level = logging.WARNING if logged else logging.ERROR
        _log.log(level, "order %s at %r goes to the dead letters (%s): %s", order.id, order.key, reason, said)
        queues = self.queues_now
        name = queues.name(order.delivery.message)
        death = Death(reason, checked_reason(said), name, round(time.time(), 3), order.id, order.name, order.history)
        if error is None:
            self._publish(order, queues.dead, death.headers())
            return
        letter = functools.partial(self._send, order, queues.dead, death.headers())
        self._written(order, functools.partial(self.results.failed, order, error), letter)

    def give_back(self, order: Order, reason: str, least_s: float = 0.0, *, at_once: bool = False) -> None:
        """Back to its queue, after a while unless `at_once`; `least_s`: it must not begin sooner anyway."""
        self._totals.returned += 1
        order.returns += 1
        order.note("returned", reason)
        if at_once:
            self._publish(order, self.queues_now.own, {})
            return
        wait_s = self.queues_now.wait_s(order.returns, least_s)
        later = functools.partial(self.queues_now.later, seconds=wait_s)
        self._publish(order, later, {DUE: round(time.time() + wait_s, 3)})

    def count(self, order: Order) -> None:
        """Back to its queue at once, with one delivery more in its headers."""
        self._totals.counted += 1
        order.deliveries += 1
        self._publish(order, self.queues_now.own, {})

    def _publish(self, order: Order, queue: Callable[[str], Any], more: Mapping[str, object]) -> None:
        """Publish a copy to the queue of this kind; the original is acknowledged when the broker has confirmed it."""
        self._leave(order)
        self._send(order, queue, more)

    def _written(
        self, order: Order, write: Callable[[Callable[[], object]], object], then: Callable[[], object]
    ) -> None:
        """Go on once its result is written down, or after a while without it: it may be hours until it can be."""
        self._leave(order)
        steps = [then]

        def go_on() -> None:
            entry.cancel()
            self._unwritten.discard(late)
            while steps:
                steps.pop()()

        def late() -> None:
            _log.warning("order %s does not wait longer for its result to be written down", order.id)
            go_on()

        entry = self._alarm.at(time.monotonic_ns() + self._result_ns, late)
        self._unwritten.add(late)
        write(lambda: self._owner.post(go_on))

    def _leave(self, order: Order) -> None:
        order.stage = Stage.LEAVING
        self._leaving.setdefault(order.identity, [])

    def _send(self, order: Order, queue: Callable[[str], Any], more: Mapping[str, object]) -> None:
        delivery = order.delivery

        def arrived(published: bool) -> None:
            self._owner.post(lambda: self._left(order, published))

        self.queues_now.send(
            delivery.message, {**order.headers(), **more}, queue, still=lambda: not delivery.stale, done=arrived
        )

    def _left(self, order: Order, published: bool) -> None:
        waiting = self._leaving.pop(order.identity, [])
        # Not remembered as done: it comes again by its copy.
        if published:
            self._condemned.pop(order.identity, None)
            if order.came:
                _remember(self._replaced, order.came)
            self._acknowledge(order)
        else:
            forgotten(order)
        self._let_in(waiting)

    def _settle_left(self, order: Order) -> None:
        waiting = self._leaving.pop(order.identity, [])
        self.settle(order)
        self._let_in(waiting)

    def _let_in(self, waiting: list[Order]) -> None:
        for copy in waiting:
            if not copy.delivery.stale:
                self._admit(copy)


def _remember(known: OrderedDict[Any, None], key: Any) -> None:
    known[key] = None
    if len(known) > _REMEMBERED:
        known.popitem(last=False)


def _late(order: Order) -> bool:
    remaining_s = order.remaining_s()
    return remaining_s is not None and remaining_s <= 0
