"""One call at a merchant: it arrives, takes its time, has its effect or not, and is answered or not."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from .law import Law, Turn


class Verdict(NamedTuple):
    """How a call is to be answered.

    Args:
        turn: what happened to it; never HANG.
        known: the order had been carried out before.
    """

    turn: Turn
    known: bool


class Conduct:
    """A merchant's behaviour, whatever its orders come over.

    Args:
        name: whose; its draws are always the same.
        law: until it is changed.
    """

    def __init__(self, name: str, law: Law) -> None:
        self.name = name
        self.law = law
        self.desk = Desk()
        self._source = random.Random(f"merchant/{name}")
        # The loop itself holds no task that nobody waits for.
        self._works: set[asyncio.Future[None]] = set()

    async def part(self, of: int) -> None:
        """One of `of` calls of an order, beside the one that places it: it takes its part of the order's time."""
        self.desk.began()
        try:
            await asyncio.sleep(self.law.delay_s(self._source) / of)
        finally:
            self.desk.left("part")

    @asynccontextmanager
    async def call(self, order: str, of: int = 1) -> AsyncIterator[Verdict]:
        """Takes an order in; the block answers as the verdict says, or never begins when the merchant hangs.

        A caller that goes away takes nothing back: what has arrived is carried out. `of`: the order's calls, among
        which its time is divided.
        """
        turn = self.law.turn(self._source)
        known = self.desk.knows(order)
        self.desk.called(order)
        work = asyncio.ensure_future(self._carried_out(order, turn, of))
        self._works.add(work)
        work.add_done_callback(self._works.discard)
        try:
            await asyncio.shield(work)
            if turn is Turn.HANG:
                # Until the caller goes away.
                await asyncio.Event().wait()
            yield Verdict(turn, known)
        finally:
            self.desk.left(turn.value)

    async def _carried_out(self, order: str, turn: Turn, of: int) -> None:
        law = self.law
        await asyncio.sleep(law.delay_s(self._source) / of)
        if turn in (Turn.WELL, Turn.LIE, Turn.HANG) or (turn is Turn.RESET and self._source.random() < 0.5):
            self.desk.effect(order, idempotent=law.idempotent)

    def asked(self, order: str) -> bool | None:
        """Whether the order was carried out; None = this merchant does not tell."""
        return self.desk.knows(order) if self.law.askable else None


# --- What a merchant remembers: how often each order was called for, and how often it took effect.


class Desk:
    """One merchant's memory. An effect is what cannot be undone: a meal that is cooked."""

    def __init__(self) -> None:
        self._calls: Counter[str] = Counter()
        self._effects: Counter[str] = Counter()
        self._turns: Counter[str] = Counter()
        self.running = 0
        self.running_most = 0

    def called(self, order: str) -> None:
        """A call for an order arrived."""
        self._calls[order] += 1
        self.began()

    def began(self) -> None:
        """A call arrived."""
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
