"""Orders behind the receive and before a thread: parked per key until the upstreams' rules let them start.

One owner calls everything here, the one that owns the channel to the broker; nothing here blocks, and a parked order
costs its message and some 500 bytes, no thread. `greenlane-policy` decides which may start and which must leave.

A retry is parked like any other order once its time has come; until then it waits in a heap, its delivery neither
acknowledged nor published again: if this process dies, the broker still has it.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from greenlane._native import Start, Upstreams
from greenlane_work.keys import provider_of
from greenlane_work.limits import CallOutcome
from greenlane_work.order import Identity, Order, Stage

if TYPE_CHECKING:
    from greenlane_work.worker.shares import SharedLimits

__all__ = ["Parking"]

_log = logging.getLogger("greenlane.work")

#: Orders that one turn starts; then the owner reads its channel again. Arbitrary.
_MOST_A_TURN: Final = 64


class Parking:
    """The parked and running orders of this process.

    Args:
        upstreams: decides.
        start: begins an order on a thread or greenlet of its own; returns at once.
        give_back: an order that must leave, for want of room; called with its state still PARKED.
        too_late: one whose deadline has passed while it was parked.
        most_ns: how long an order may be here before it begins, whatever it waits for; 0 = for ever.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        *,
        start: Callable[[Order, Start], None],
        give_back: Callable[[Order], None],
        too_late: Callable[[Order], None],
        most_ns: int = 0,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.upstreams = upstreams
        # Set where keys have providers: an order passes its provider's breaker before it is parked at its key.
        self.providers: Upstreams | None = None
        # Set where limits are shared with other workers.
        self.shares: SharedLimits | None = None
        # Gives whether an order must not leave.
        self.stays: Callable[[Order], bool] = lambda _order: False
        self._start = start
        self._give_back = give_back
        self._too_late = too_late
        self._most_ns = most_ns
        self._clock_ns = clock_ns
        self._orders: dict[int, Order] = {}
        self._by_identity: dict[Identity, Order] = {}
        self._later: list[tuple[int, int]] = []
        self.running = 0
        self.most_parked = 0
        # False: nothing starts.
        self.open = True

    def __len__(self) -> int:
        return len(self._orders)

    def __iter__(self) -> Iterator[Order]:
        return iter(self._orders.values())

    @property
    def parked(self) -> int:
        """Orders that wait here, those between two attempts too."""
        return len(self._orders) - self.running

    @property
    def between(self) -> int:
        """Orders among them that wait for the time of their next attempt."""
        return len(self._later)

    def known(self, identity: Identity) -> Order | None:
        """Give the order of this identity that is parked or running here."""
        return self._by_identity.get(identity)

    def arrive(self, order: Order) -> None:
        """Park an order that was received. Call `turn` after one or more of these."""
        order.stage = Stage.PARKED
        self._orders[order.number] = order
        self._by_identity[order.identity] = order
        self.most_parked = max(self.most_parked, self.parked)
        self._offer(order)

    def later(self, order: Order, at_ns: int) -> None:
        """Park an order that ran until `at_ns`; call it after `ended`."""
        order.stage = Stage.PARKED
        order.not_before_ns = at_ns
        self._orders[order.number] = order
        self._by_identity[order.identity] = order
        self.most_parked = max(self.most_parked, self.parked)
        heapq.heappush(self._later, (at_ns, order.number))

    def ended(self, order: Order, outcome: CallOutcome) -> None:
        """Tell how a run ended, and forget the order."""
        if order.stage is Stage.RUNNING:
            self.running -= 1
            self.upstreams.ended(order.number, self._clock_ns(), outcome)
            self._passed_out(order, outcome)
        self._forget(order)

    def withdraw(self, order: Order) -> bool:
        """Take out a parked order, which goes elsewhere; False when it is none."""
        if order.stage is not Stage.PARKED or order.number not in self._orders:
            return False
        for level in self._levels:
            level.withdraw(order.number, self._clock_ns())
        self._passed_out(order)
        self._forget(order)
        return True

    def turn(self) -> int | None:
        """Start what may start and let go what must leave; give when to call again without an event, monotonic ns."""
        now_ns = self._clock_ns()
        self._due(now_ns)
        for level in self._levels:
            for number in level.expired(now_ns):
                self._leave(number, self._expired)
            for number in level.surplus(now_ns):
                self._leave(number, self._give_back)
        if not self.open:
            return None
        while self.providers is not None and (passes := self.providers.next(self._clock_ns())) is not None:
            order = self._orders[passes.order]
            order.passed = passes
            self.providers.began(order.number, self._clock_ns(), False)  # its time runs when its call begins
            self._park(order)
        for _ in range(_MOST_A_TURN):
            start = self.upstreams.next(self._clock_ns())
            if start is None:
                break
            self._begin(start)
        else:
            return now_ns
        wakes = [*(level.wake_ns(now_ns) for level in self._levels), self._next_later()]
        return min((at_ns for at_ns in wakes if at_ns is not None), default=None)

    def waiting(self) -> Iterator[Order]:
        """Give the orders that have not been started."""
        return iter([order for order in self._orders.values() if order.stage is Stage.PARKED])

    def in_progress(self) -> Iterator[Order]:
        """Give the orders that run."""
        return iter([order for order in self._orders.values() if order.stage is Stage.RUNNING])

    @property
    def _levels(self) -> list[Upstreams]:
        return [self.upstreams] if self.providers is None else [self.providers, self.upstreams]

    def _begin(self, start: Start) -> None:
        order = self._orders[start.order]
        order.stage = Stage.RUNNING
        self.running += 1
        if self.providers is not None and order.passed is not None:
            # One call of each merchant may count as slow at a time: a slow merchant does not make its provider slow.
            alone = self.upstreams.load(order.key)[0] == 1
            self.providers.began(order.number, self._clock_ns(), alone)
        self._start(order, start)

    def _offer(self, order: Order) -> None:
        order.passed = None
        provider = provider_of(order.key)
        if self.providers is None or not provider:
            self._park(order)
            return
        now_ns = self._clock_ns()
        self.providers.arrive(order.number, provider, now_ns, order.size, self._until_ns(order, now_ns))

    def _park(self, order: Order) -> None:
        """Park it at its key."""
        now_ns = self._clock_ns()
        if self.shares is not None:
            self.shares.arriving(order.key)
        if self.providers is not None and (provider := self.providers.look_at(provider_of(order.key))) is not None:
            self.upstreams.presume(order.key, now_ns, provider.usual_ns)
        self.upstreams.arrive(order.number, order.key, now_ns, order.size, self._until_ns(order, now_ns))
        if self.shares is not None:
            self.shares.arrived(order.key)

    def _until_ns(self, order: Order, now_ns: int) -> int:
        """When it leaves if it has not begun; 0 = never. Each level by itself would let it wait as long again."""
        return min(filter(None, (order.begins_until_ns(now_ns), self._leaves_ns(order))), default=0)

    def _leaves_ns(self, order: Order) -> int:
        return order.received_ns + self._most_ns if self._most_ns and not self.stays(order) else 0

    def _expired(self, order: Order) -> None:
        (self._give_back if 0 < self._leaves_ns(order) <= self._clock_ns() else self._too_late)(order)

    def _due(self, now_ns: int) -> None:
        while self._later and self._later[0][0] <= now_ns:
            at_ns, number = heapq.heappop(self._later)
            order = self._orders.get(number)
            if order is not None and order.not_before_ns == at_ns:
                order.not_before_ns = 0
                self._offer(order)

    def _next_later(self) -> int | None:
        while self._later:
            at_ns, number = self._later[0]
            order = self._orders.get(number)
            if order is not None and order.not_before_ns == at_ns:
                return at_ns
            heapq.heappop(self._later)
        return None

    def _leave(self, number: int, tell: Callable[[Order], None]) -> None:
        order = self._orders.get(number)
        if order is not None:
            self._passed_out(order)
            self._forget(order)
            try:
                tell(order)
            except Exception:  # those that leave with it are no longer known to any queue
                _log.exception("a bug of Greenlane: order %s could not leave", order.id)

    def _passed_out(self, order: Order, outcome: CallOutcome = CallOutcome.CANCELLED) -> None:
        """Tell its provider, if that had let it through."""
        if self.providers is not None and order.passed is not None:
            self.providers.ended(order.number, self._clock_ns(), outcome)
            order.passed = None

    def _forget(self, order: Order) -> None:
        self._orders.pop(order.number, None)
        if self._by_identity.get(order.identity) is order:
            del self._by_identity[order.identity]
