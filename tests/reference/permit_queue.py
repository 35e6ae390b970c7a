"""The permit queue, slow and obvious: the twin of `crates/policy/src/queue.rs` and `order.rs`.

Waiters and holders are plain lists; who is next is found by sorting everybody again each time.
"""

import math
from dataclasses import dataclass

THETA_NS = 60e6
UNKNOWN_NS = 20_000_000
LONG_NS = 60_000_000


@dataclass
class Waiter:
    ticket: int
    key: tuple[bool, int, int, int]
    size_ns: int
    # The same two once it holds.
    holds: tuple[tuple[bool, int, int, int], int]


@dataclass
class Holder:
    ticket: int
    key: tuple[bool, int, int, int]
    size_ns: int
    express: bool
    lent: bool = False
    shares: bool = False


class PermitQueue:
    def __init__(self, permits: int) -> None:
        self.permits = max(1, permits)
        self.holding: list[Holder] = []
        self.line: list[Waiter] = []

    def request(
        self,
        now_ns: int,
        ticket: int,
        arrival_ns: int,
        deadline_ns: int,
        expected_ns: int,
        attained_ns: int,
        long_ns: int,
    ) -> bool:
        if any(holder.ticket == ticket for holder in self.holding):
            return True
        if any(waiter.ticket == ticket for waiter in self.line):
            return False
        size_ns = expected_ns or UNKNOWN_NS
        late = deadline_ns != 0 and now_ns >= deadline_ns
        held_ns = max(expected_ns, long_ns) or UNKNOWN_NS
        keys = [
            (late, arrival_ns + _behind_ns(attained_ns) - _boost_ns(each_ns), arrival_ns, ticket)
            for each_ns in (size_ns, held_ns)
        ]
        self.line.append(Waiter(ticket, keys[0], size_ns, (keys[1], held_ns)))
        return ticket in self._grant()

    def release(self, ticket: int) -> list[int]:
        self.holding = [holder for holder in self.holding if holder.ticket != ticket]
        return self._grant()

    def cancel(self, ticket: int) -> list[int]:
        self.line = [waiter for waiter in self.line if waiter.ticket != ticket]
        return self._grant()

    def lend(self, ticket: int) -> list[int]:
        self._set_lent(ticket, lent=True)
        return self._grant()

    def share(self, ticket: int) -> list[int]:
        for holder in self.holding:
            if holder.ticket == ticket and not holder.lent:
                holder.lent = holder.shares = True
        return self._grant()

    def call_back(self, ticket: int) -> None:
        self._set_lent(ticket, lent=False)

    def holders(self) -> int:
        return sum(not holder.lent for holder in self.holding)

    def waiting(self) -> int:
        return len(self.line)

    def _set_lent(self, ticket: int, *, lent: bool) -> None:
        for holder in self.holding:
            if holder.ticket == ticket:
                holder.lent = lent
                holder.shares &= lent

    def _room(self) -> int:
        return self.permits + 2 * sum(holder.shares for holder in self.holding)

    def _grant(self) -> list[int]:
        granted = []
        while (first := self._next()) is not None:
            self.line.remove(first)
            self.holding.append(Holder(first.ticket, *first.holds, express=self.holders() >= self._room()))
            granted.append(first.ticket)
        return granted

    def _next(self) -> Waiter | None:
        line = sorted(self.line, key=lambda waiter: waiter.key)
        if not line or self.holders() < self._room():
            return line[0] if line else None
        counting = [holder for holder in self.holding if not holder.lent]
        last = max(counting, key=lambda holder: holder.key)
        short_ns = last.size_ns // 2
        beside = [holder for holder in counting if holder.express and self.holders() > self._room()]
        for waiter in line:
            surely_short = waiter.holds[1] <= short_ns
            kept_out = any(holder.size_ns <= short_ns or not surely_short for holder in beside)
            if waiter.size_ns <= short_ns and waiter.key < last.key and not kept_out:
                return waiter
        return None


def _behind_ns(attained_ns: int) -> int:
    return 4 * min(attained_ns, LONG_NS) + 8 * max(0, attained_ns - LONG_NS)


def _boost_ns(size_ns: int) -> int:
    return int(-THETA_NS * math.log(-math.expm1(-max(size_ns, 1000) / THETA_NS)))
