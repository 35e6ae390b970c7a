"""One call at a merchant: it arrives, takes its time, has its effect or not, and is answered or not."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

from .desk import Desk
from .law import Law, Turn


class Verdict(NamedTuple):
    """How a call is to be answered.

    Args:
        turn: what became of it; never HANG.
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

    @asynccontextmanager
    async def call(self, order: str) -> AsyncIterator[Verdict]:
        """Takes an order in; the block answers as the verdict says, or never begins when the merchant hangs.

        A caller that goes away takes nothing back: what has arrived is carried out.
        """
        turn = self.law.turn(self._source)
        known = self.desk.knows(order)
        self.desk.called(order)
        work = asyncio.ensure_future(self._carried_out(order, turn))
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

    async def _carried_out(self, order: str, turn: Turn) -> None:
        law = self.law
        await asyncio.sleep(law.delay_s(self._source))
        if turn in (Turn.WELL, Turn.LIE, Turn.HANG) or (turn is Turn.RESET and self._source.random() < 0.5):
            self.desk.effect(order, idempotent=law.idempotent)

    def asked(self, order: str) -> bool | None:
        """Whether the order was carried out; None = this merchant does not tell."""
        return self.desk.knows(order) if self.law.askable else None
