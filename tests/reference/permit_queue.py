"""The permit queue, slow and obvious: the twin of `crates/policy/src/queue.rs`.

Waiters and holders are plain lists; who is next is found by sorting everybody anew each time.
"""

from dataclasses import dataclass

NEVER = float("inf")


@dataclass
class Waiter:
    ticket: int
    arrival_ns: int
    deadline_ns: int  # 0 = none
    expected_ns: int
    requested_ns: int


@dataclass
class Holder:
    ticket: int
    expected_ns: int
    lent: bool = False


class PermitQueue:
    def __init__(self, permits: int, discipline: str, ageing_ns: int) -> None:
        self.permits = max(1, permits)
        self.discipline = discipline
        self.ageing_ns = ageing_ns
        self.holding: list[Holder] = []
        self.line: list[Waiter] = []

    def request(self, now_ns: int, ticket: int, arrival_ns: int, deadline_ns: int, expected_ns: int) -> bool:
        if any(holder.ticket == ticket for holder in self.holding):
            return True
        if any(waiter.ticket == ticket for waiter in self.line):
            return False
        if not self.line and self.holders() < self.permits:
            self.holding.append(Holder(ticket, expected_ns))
            return True
        self.line.append(Waiter(ticket, arrival_ns, deadline_ns, expected_ns, now_ns))
        return False

    def release(self, now_ns: int, ticket: int) -> list[int]:
        self.holding = [holder for holder in self.holding if holder.ticket != ticket]
        return self._grant(now_ns)

    def cancel(self, now_ns: int, ticket: int) -> list[int]:
        self.line = [waiter for waiter in self.line if waiter.ticket != ticket]
        return self._grant(now_ns)

    def lend(self, now_ns: int, ticket: int) -> list[int]:
        for holder in self.holding:
            if holder.ticket == ticket:
                holder.lent = True
        return self._grant(now_ns)

    def holders(self) -> int:
        return sum(not holder.lent for holder in self.holding)

    def waiting(self) -> int:
        return len(self.line)

    def expected_ns(self) -> int:
        counting = [holder.expected_ns for holder in self.holding if not holder.lent]
        return sum(counting) + sum(waiter.expected_ns for waiter in self.line)

    def _grant(self, now_ns: int) -> list[int]:
        granted = []
        while self.line and self.holders() < self.permits:
            first = min(self.line, key=lambda waiter: self._place(now_ns, waiter))
            self.line.remove(first)
            self.holding.append(Holder(first.ticket, first.expected_ns))
            granted.append(first.ticket)
        return granted

    def _place(self, now_ns: int, waiter: Waiter) -> tuple[float, ...]:
        if self.ageing_ns and now_ns - waiter.requested_ns >= self.ageing_ns:
            return (0, waiter.requested_ns, waiter.ticket)
        if self.discipline == "fifo":
            return (1, waiter.arrival_ns, waiter.ticket)
        if self.discipline == "deadline":
            return (1, waiter.deadline_ns or NEVER, waiter.arrival_ns, waiter.ticket)
        return (1, waiter.expected_ns, waiter.arrival_ns, waiter.ticket)
