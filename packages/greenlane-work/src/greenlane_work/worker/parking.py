"""Orders behind the receive and before a thread: parked per key until the upstreams' rules let them start.

One owner calls everything here, the one that owns the channel to the broker; nothing here blocks, and a parked order
costs its message and some 500 bytes, no thread. `greenlane-policy` decides which may start and which must leave.

A retry is parked like any other order once its time has come; until then it waits in a heap, its delivery neither
acknowledged nor published again: if this process dies, the broker still has it.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from greenlane._native import Start, Upstreams
from greenlane_work.keys import provider_of
from greenlane_work.limits import CallOutcome
from greenlane_work.order import Identity, Order

if TYPE_CHECKING:
    from greenlane_work.worker.shares import SharedLimits

__all__ = ["Begins", "Parking", "Turn"]

#: Orders that one turn starts; then the owner reads its channel again. Arbitrary.
_MOST_A_TURN: Final = 64


class Begins(NamedTuple):
    """The order has a place. `start`: how its key let it through, and how its provider did: `passed`."""

    order: Order
    start: Start
    passed: Start | None


class Turn(NamedTuple):
    """What `Parking.turn` decided: what begins, whose deadline has passed, and what leaves for want of room."""

    begins: list[Begins]
    late: list[Order]
    gone: list[Order]
    #: When to call it again without an event, monotonic; None = never.
    wake_ns: int | None


class Parking:
    """The parked and running orders of this process.

    Args:
        upstreams: decides.
        most_ns: how long an order may be here before it begins, whatever it waits for; 0 = for ever.
        stored: a store knows of orders whose call is over; else only this process does, and they do not leave.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        *,
        most_ns: int = 0,
        stored: bool = True,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.upstreams = upstreams
        # Set where keys have providers: an order passes its provider's breaker before it is parked at its key.
        self.providers: Upstreams | None = None
        # Set where limits are shared with other workers.
        self.shares: SharedLimits | None = None
        self._stored = stored
        self._most_ns = most_ns
        self._clock_ns = clock_ns
        self._orders: dict[int, Order] = {}
        self._by_identity: dict[Identity, Order] = {}
        self._begun: dict[int, Order] = {}
        # How their providers let them through.
        self._passed: dict[int, Start] = {}
        # When they may begin, and the same in their order.
        self._from_ns: dict[int, int] = {}
        self._later: list[tuple[int, int]] = []
        self.most_parked = 0
        # False: nothing starts.
        self.open = True

    def __len__(self) -> int:
        return len(self._orders)

    def __iter__(self) -> Iterator[Order]:
        return iter(self._orders.values())

    @property
    def running(self) -> int:
        """Orders that have a place."""
        return len(self._begun)

    @property
    def parked(self) -> int:
        """Orders that wait here, those between two attempts too."""
        return len(self._orders) - self.running

    @property
    def between(self) -> int:
        """Orders among them that wait for the time of their next attempt."""
        return len(self._from_ns)

    def known(self, identity: Identity) -> Order | None:
        """Give the order of this identity that is parked or running here."""
        return self._by_identity.get(identity)

    def arrive(self, order: Order) -> None:
        """Park an order that was received. Call `turn` after one or more of these."""
        self._take(order)
        self._offer(order)

    def later(self, order: Order, at_ns: int) -> None:
        """Park an order until its time; of one that ran, call it after `ended`."""
        self._take(order)
        self._from_ns[order.number] = at_ns
        heapq.heappush(self._later, (at_ns, order.number))

    def ended(self, order: Order, outcome: CallOutcome) -> None:
        """Tell how a run ended, and forget the order."""
        if self._begun.pop(order.number, None) is not None:
            self.upstreams.ended(order.number, self._clock_ns(), outcome)
            self._passed_out(order, outcome)
        self._forget(order)

    def withdraw(self, order: Order) -> bool:
        """Take out a parked order, which goes elsewhere; False when it is none."""
        if order.number in self._begun or order.number not in self._orders:
            return False
        for level in self._levels:
            level.withdraw(order.number, self._clock_ns())
        self._passed_out(order)
        self._forget(order)
        return True

    def turn(self) -> Turn:
        """Decide what has a place now, and what must leave: none of these is parked afterwards."""
        now_ns, levels = self._clock_ns(), self._levels
        self._due(now_ns)
        begins, late, gone = list[Begins](), list[Order](), list[Order]()
        for level in levels:
            for order in self._let_go(numbers) if (numbers := level.expired(now_ns)) else ():
                (gone if self._leaves(order) else late).append(order)
            if numbers := level.surplus(now_ns):
                gone += self._let_go(numbers)
        if not self.open:
            return Turn(begins, late, gone, None)
        while self.providers is not None and (passes := self.providers.next(self._clock_ns())) is not None:
            order = self._orders[passes.order]
            self._passed[order.number] = passes
            self.providers.began(order.number, self._clock_ns(), False)  # its time runs when its call begins
            self._park(order)
        for _ in range(_MOST_A_TURN):
            start = self.upstreams.next(self._clock_ns())
            if start is None:
                break
            begins.append(self._begin(start))
        else:
            return Turn(begins, late, gone, now_ns)
        wakes = [at_ns for level in levels if (at_ns := level.wake_ns(now_ns)) is not None]
        if self._later and (later_ns := self._next_later()) is not None:
            wakes.append(later_ns)
        return Turn(begins, late, gone, min(wakes) if wakes else None)

    def waiting(self) -> Iterator[Order]:
        """Give the orders that have not been started."""
        return iter([order for order in self._orders.values() if order.number not in self._begun])

    def timed(self) -> list[tuple[Order, int]]:
        """Give those that wait for their time, and when that is, monotonic ns."""
        return [(self._orders[number], at_ns) for number, at_ns in self._from_ns.items()]

    def in_progress(self) -> Iterator[Order]:
        """Give the orders that run."""
        return iter(list(self._begun.values()))

    @property
    def _levels(self) -> list[Upstreams]:
        return [self.upstreams] if self.providers is None else [self.providers, self.upstreams]

    def _take(self, order: Order) -> None:
        self._orders[order.number] = order
        self._by_identity[order.identity] = order
        self.most_parked = max(self.most_parked, self.parked)

    def _begin(self, start: Start) -> Begins:
        order = self._begun[start.order] = self._orders[start.order]
        passed = self._passed.get(order.number)
        if self.providers is not None and passed is not None:
            # One call of each merchant may count as slow at a time: a slow merchant does not make its provider slow.
            alone = self.upstreams.load(order.key)[0] == 1
            self.providers.began(order.number, self._clock_ns(), alone)
        return Begins(order, start, passed)

    def _offer(self, order: Order) -> None:
        if self.providers is None or not (provider := provider_of(order.key)):
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
        until_ns, leaves_ns = order.begins_until_ns(now_ns), self._leaves_ns(order)
        return min(until_ns, leaves_ns) if until_ns and leaves_ns else until_ns or leaves_ns

    def _leaves_ns(self, order: Order) -> int:
        stays = not self._stored and order.done is not None
        return order.received_ns + self._most_ns if self._most_ns and not stays else 0

    def _leaves(self, order: Order) -> bool:
        """It has been here for as long as it may."""
        return 0 < self._leaves_ns(order) <= self._clock_ns()

    def _due(self, now_ns: int) -> None:
        while self._later and self._later[0][0] <= now_ns:
            at_ns, number = heapq.heappop(self._later)
            if self._from_ns.get(number) == at_ns:
                del self._from_ns[number]
                self._offer(self._orders[number])

    def _next_later(self) -> int | None:
        while self._later:
            at_ns, number = self._later[0]
            if self._from_ns.get(number) == at_ns:
                return at_ns
            heapq.heappop(self._later)
        return None

    def _let_go(self, numbers: list[int]) -> list[Order]:
        orders = [self._orders[number] for number in numbers if number in self._orders]
        for order in orders:
            self._passed_out(order)
            self._forget(order)
        return orders

    def _passed_out(self, order: Order, outcome: CallOutcome = CallOutcome.CANCELLED) -> None:
        """Tell its provider, if that had let it through."""
        if self.providers is not None and self._passed.pop(order.number, None) is not None:
            self.providers.ended(order.number, self._clock_ns(), outcome)

    def _forget(self, order: Order) -> None:
        self._orders.pop(order.number, None)
        self._from_ns.pop(order.number, None)
        if self._by_identity.get(order.identity) is order:
            del self._by_identity[order.identity]
