"""The permit queue, slow and obvious: the twin of `crates/policy/src/queue.rs` and `order.rs`.

Waiters and holders are plain lists; who is next is found by sorting everybody anew each time.
"""

import math
from dataclasses import dataclass

LEAST_WAIT_NS = 20e6
UNKNOWN_NS = 20_000_000
ATTAINED = 4
NEWEST = 0.02


@dataclass
class Waiter:
    ticket: int
    key: tuple[bool, int, int, int]
    size_ns: int
    requested_ns: int


@dataclass
class Holder:
    ticket: int
    size_ns: int
    lent: bool = False


class PermitQueue:
    def __init__(self, permits: int, *, express: bool) -> None:
        self.permits = max(1, permits)
        self.express = express
        self.holding: list[Holder] = []
        self.line: list[Waiter] = []
        self.wait_ns = 0.0

    def request(
        self, now_ns: int, ticket: int, arrival_ns: int, deadline_ns: int, expected_ns: int, attained_ns: int
    ) -> bool:
        if any(holder.ticket == ticket for holder in self.holding):
            return True
        if any(waiter.ticket == ticket for waiter in self.line):
            return False
        size_ns = expected_ns or UNKNOWN_NS
        late = deadline_ns != 0 and now_ns >= deadline_ns
        at_ns = arrival_ns + ATTAINED * attained_ns - self._boost_ns(size_ns)
        self.line.append(Waiter(ticket, (late, at_ns, arrival_ns, ticket), size_ns, now_ns))
        return ticket in self._grant(now_ns)

    def release(self, now_ns: int, ticket: int) -> list[int]:
        self.holding = [holder for holder in self.holding if holder.ticket != ticket]
        return self._grant(now_ns)

    def cancel(self, now_ns: int, ticket: int) -> list[int]:
        self.line = [waiter for waiter in self.line if waiter.ticket != ticket]
        return self._grant(now_ns)

    def lend(self, now_ns: int, ticket: int) -> list[int]:
        self._set_lent(ticket, lent=True)
        return self._grant(now_ns)

    def call_back(self, now_ns: int, ticket: int) -> None:
        self._set_lent(ticket, lent=False)

    def holders(self) -> int:
        return sum(not holder.lent for holder in self.holding)

    def waiting(self) -> int:
        return len(self.line)

    def _set_lent(self, ticket: int, *, lent: bool) -> None:
        for holder in self.holding:
            if holder.ticket == ticket:
                holder.lent = lent

    def _grant(self, now_ns: int) -> list[int]:
        granted = []
        while (first := self._next()) is not None:
            self.line.remove(first)
            self.holding.append(Holder(first.ticket, first.size_ns))
            self.wait_ns += NEWEST * (now_ns - first.requested_ns - self.wait_ns)
            granted.append(first.ticket)
        return granted

    def _next(self) -> Waiter | None:
        if not self.line or self.holders() > self.permits:
            return None
        if self.holders() < self.permits:
            return min(self.line, key=lambda waiter: waiter.key)
        shortest = min(self.line, key=lambda waiter: (waiter.size_ns, waiter.key))
        longest_ns = max(holder.size_ns for holder in self.holding if not holder.lent)
        return shortest if self.express and shortest.size_ns <= longest_ns // 2 else None

    def _boost_ns(self, size_ns: int) -> int:
        wait_ns = max(self.wait_ns, LEAST_WAIT_NS)
        return int(-wait_ns * math.log(-math.expm1(-max(size_ns, 1000) / wait_ns)))
