"""What a merchant remembers: how often each order was called for, and how often it took effect."""

from __future__ import annotations

from collections import Counter
from typing import Any


class Desk:
    """One merchant's memory. An effect is what cannot be undone: a meal that is cooked."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._effects: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()
        self.running = 0
        self.running_most = 0

    def called(self, order: str) -> None:
        """A call arrived."""
        self._calls[order] += 1
        self.running += 1
        self.running_most = max(self.running_most, self.running)

    def left(self, turn: str) -> None:
        """A call is over, in this way."""
        self.running -= 1
        self._turns[turn] += 1

    def effect(self, order: str, *, idempotent: bool) -> None:
        """The order is carried out; once more, unless it is known and the merchant is idempotent."""
        if not (idempotent and order in self._effects):
            self._effects[order] += 1

    def knows(self, order: str) -> bool:
        """It was carried out."""
        return order in self._effects

    def clear(self) -> None:
        """Forgets all but the calls that run."""
        for counter in (self._calls, self._effects, self._turns):
            counter.clear()
        self.running_most = self.running

    def look(self) -> dict[str, Any]:
        """The sums."""
        return {
            "calls": self._calls.total(),
            "calls_repeated": self._calls.total() - len(self._calls),
            "effects": self._effects.total(),
            "effects_doubled": self._effects.total() - len(self._effects),
            "orders": len(self._effects),
            "running": self.running,
            "running_most": self.running_most,
            "turns": dict(self._turns),
        }

    def orders(self) -> dict[str, list[int]]:
        """Order -> [calls, effects], of all that were called for."""
        return {order: [calls, self._effects[order]] for order, calls in self._calls.items()}
