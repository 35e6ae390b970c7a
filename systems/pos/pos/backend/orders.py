"""What is known of each order, and what flows to each merchant: made from the journal's lines."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from pos.journal import TERMINAL, Entry, Event

#: Orders kept; older ones are forgotten.
MOST: Final = 100_000
#: Events kept for pages that draw them.
_EVENTS: Final = 2_000
#: Rates and percentiles are of this many seconds.
WINDOW_S: Final = 5.0

#: Event -> the state that an order is in afterwards.
_STATES: Final = {
    Event.PUBLISHED: "waiting", Event.BEGAN: "running", Event.CALLED: "running", Event.FAILED: "retrying",
    Event.DONE: "done", Event.REFUSED: "refused", Event.DEAD: "dead", Event.CANCELLED: "cancelled",
    Event.REFUNDED: "refunded",
}  # fmt: skip
#: States that an order stays in.
ENDED: Final = frozenset(_STATES[event] for event in TERMINAL)


@dataclass
class Order:
    """One order.

    Args:
        merchant: whose.
        state: waiting, running, retrying, done, refused, dead, cancelled or refunded.
        published_ns, ended_ns: CLOCK_MONOTONIC; 0 = not yet.
        attempts: begun so far.
        ends: terminal lines; more than 1 is our mistake.
        remark: what was said last.
        queue: where it was published.
    """

    merchant: str
    state: str = "waiting"
    published_ns: int = 0
    ended_ns: int = 0
    attempts: int = 0
    ends: int = 0
    remark: str = ""
    queue: str = ""


@dataclass
class Flow:
    """One merchant's orders: how many are in which state, and what has come and gone lately."""

    states: Counter[str] = field(default_factory=Counter)
    published: deque[int] = field(default_factory=deque)
    ended: deque[tuple[int, float]] = field(default_factory=deque)

    def look(self, now_ns: int) -> dict[str, Any]:
        """Counts, rates per second and the 95th percentile from publish to end, of the last seconds."""
        since_ns = now_ns - int(WINDOW_S * 1e9)
        while self.published and self.published[0] < since_ns:
            self.published.popleft()
        while self.ended and self.ended[0][0] < since_ns:
            self.ended.popleft()
        latencies = sorted(latency for _, latency in self.ended)
        return {
            **{state: self.states[state] for state in dict.fromkeys(_STATES.values())},
            "published_per_s": len(self.published) / WINDOW_S,
            "ended_per_s": len(self.ended) / WINDOW_S,
            "p95_ms": latencies[-(-95 * len(latencies) // 100) - 1] if latencies else None,
        }


class Orders:
    """Everything that the journal told.

    Args:
        most: orders kept.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._orders: OrderedDict[str, Order] = OrderedDict()
        self._flows: dict[str, Flow] = {}
        self._events: deque[tuple[int, str, str, str, str]] = deque(maxlen=_EVENTS)
        self.number = 0

    def known(self, order: str) -> Order | None:
        """What is known of it."""
        return self._orders.get(order)

    def take(self, entries: Iterable[Entry]) -> None:
        """Lines of the journal, in its order."""
        for entry in entries:
            if entry.event in _STATES:
                self._take(entry)

    def flow(self, merchant: str, now_ns: int) -> dict[str, Any]:
        """What flows to a merchant now."""
        return self._flows.setdefault(merchant, Flow()).look(now_ns)

    def since(self, number: int) -> list[tuple[int, str, str, str, str]]:
        """The last events after this number: number, event, order, merchant, queue ("" = not known yet)."""
        new = min(self.number - number, len(self._events))
        return [*islice(reversed(self._events), max(0, new))][::-1]

    def _take(self, entry: Entry) -> None:
        event = Event(entry.event)
        order = self._orders.get(entry.order)
        flow = self._flows.setdefault(entry.merchant, Flow())
        # A fast worker's lines may stand before its publisher's, which then says when, and nothing else.
        late = order is not None and event is Event.PUBLISHED
        if order is None:
            order = self._orders[entry.order] = Order(entry.merchant)
            flow.states[order.state] += 1
            self._forget()
        if not late:
            self.number += 1
            queue = entry.remark if event is Event.PUBLISHED else order.queue
            self._events.append((self.number, entry.event, entry.order, entry.merchant, queue))
        if event is Event.PUBLISHED:
            order.published_ns, order.queue = entry.at_ns, entry.remark
            flow.published.append(entry.at_ns)
            return
        order.attempts += event is Event.BEGAN
        order.remark = entry.remark or order.remark
        if event in TERMINAL:
            order.ends += 1
            order.ended_ns = order.ended_ns or entry.at_ns
            flow.ended.append((entry.at_ns, (entry.at_ns - (order.published_ns or entry.at_ns)) / 1e6))
        if order.state not in ENDED:
            flow.states[order.state] -= 1
            order.state = _STATES[event]
            flow.states[order.state] += 1

    def _forget(self) -> None:
        if len(self._orders) > self._most:
            _, oldest = self._orders.popitem(last=False)
            self._flows[oldest.merchant].states[oldest.state] -= 1
