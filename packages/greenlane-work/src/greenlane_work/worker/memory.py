"""What a worker remembers of orders that left it: delivered again, they are not run again."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from celery.exceptions import WorkerLostError

from greenlane_work.headers import Tried
from greenlane_work.order import Identity, Order
from greenlane_work.worker import lifecycle as life

__all__ = ["Memory"]

#: Header of quorum queues.
_DELIVERY_COUNT: Final = "x-delivery-count"
#: Identities of orders that ended here. Arbitrary; some MB.
_REMEMBERED: Final = 20_000
_ADMISSION: Final = life.Admission()


class Memory:
    """Used by the owner of the channel only."""

    def __init__(self) -> None:
        self._ended: OrderedDict[Identity, None] = OrderedDict()
        # Messages whose copy was confirmed, by `Order.came`: delivered again, it is the copy that counts.
        self._replaced: OrderedDict[tuple[object, ...], None] = OrderedDict()
        # Orders that are to be dead letters, and what was tried.
        self._condemned: OrderedDict[Identity, tuple[life.Burial, tuple[Tried, ...]]] = OrderedDict()
        # Orders that are leaving, and what arrived with the same identity meanwhile.
        self._leaving: dict[Identity, list[Order]] = {}

    @property
    def leaving(self) -> int:
        """Orders whose copy is on its way, or whose end is being written down."""
        return len(self._leaving)

    def is_leaving(self, order: Order) -> bool:
        """Whether an order of this identity is leaving."""
        return order.identity in self._leaving

    def hold(self, order: Order) -> None:
        """It leaves: what comes with its identity waits."""
        self._leaving.setdefault(order.identity, [])

    def waits(self, order: Order) -> bool:
        """Keep an order back while one of its identity is leaving; False = none is."""
        waiting = self._leaving.get(order.identity)
        if waiting is None:
            return False
        waiting.append(order)
        return True

    def let_in(self, order: Order) -> list[Order]:
        """It has left; give what waited for that, and what is still to be settled."""
        return [each for each in self._leaving.pop(order.identity, []) if not each.delivery.stale]

    def ended(self, order: Order, keep: life.Keep) -> None:
        """Its message is acknowledged."""
        if keep in (life.Keep.ENDED, life.Keep.DONE):
            _remember(self._ended, order.identity, None)
        elif keep is life.Keep.REPLACED:
            self._condemned.pop(order.identity, None)
            if order.came:
                _remember(self._replaced, order.came, None)

    def repeats(self, order: Order) -> bool:
        """Whether a message comes again only because its acknowledgement was lost.

        A dead letter that is sent again may be like the message that it came from; only its deadline can have been the
        reason then, and with that it dies once more.
        """
        if not order.redelivered:
            return False
        remaining_s = order.remaining_s()
        late = remaining_s is not None and remaining_s <= 0
        return order.identity in self._ended or (order.came in self._replaced and not late)

    def judge(self, order: Order, *, deliveries_most: int, stored: bool) -> life.Event:
        """Give what a message that was received is: it may have been delivered before, and have ended its worker.

        Quorum queues count deliveries, the store counts attempts. Without both, a message that comes again is
        published again with its count, and the old one acknowledged.
        """
        if order.redelivered:
            if self.repeats(order):
                return life.Repetition()
            if (burial := self._condemned_by(order)) is not None:
                return burial
        count = order.request.request_dict.get(_DELIVERY_COUNT)
        deliveries = count if isinstance(count, int) else order.deliveries
        if deliveries >= deliveries_most:
            said = f"delivered {deliveries + 1} times"
            return life.Burial("deliveries", said, WorkerLostError(said))
        counted = stored or isinstance(count, int)
        return _ADMISSION if counted or not order.redelivered else life.Recount()

    def condemn(self, order: Order, burial: life.Burial) -> None:
        """It is to be a dead letter."""
        _remember(self._condemned, order.identity, (burial, order.history))

    def _condemned_by(self, order: Order) -> life.Burial | None:
        """Give the death of an order whose letter could not be published while it was ours; its message knows none."""
        verdict = self._condemned.get(order.identity)
        if verdict is None:
            return None
        burial, order.history = verdict
        return life.Burial(burial.reason, burial.said, logged=True)


def _remember(known: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    known[key] = value
    if len(known) > _REMEMBERED:
        known.popitem(last=False)
