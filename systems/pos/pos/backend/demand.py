"""Orders that nobody made: the backend's own demand, dealt out among the merchants at an even rate."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

# Above it the backend would fall behind; what it then owes is forgotten.
MOST_PER_S: Final = 300.0
_OWED_S: Final = 1.0
# A change of the rate is noticed so soon.
_LOOK_S: Final = 0.1


class Demand:
    """Places orders until it is cancelled.

    Args:
        place: takes an order's id and its merchant; what it raises is counted and forgotten.
        merchants: in the order in which they get one.
        per_s: orders a second at first.
        prefix: begins each id.
    """

    def __init__(
        self, place: Callable[[str, str], Awaitable[object]], merchants: Sequence[str], per_s: float, prefix: str
    ) -> None:
        self._place = place
        self._merchants = itertools.cycle(merchants)
        self._prefix = prefix
        self._numbers = itertools.count(1)
        self._running: set[asyncio.Task[None]] = set()
        self.per_s = per_s
        self.refused = 0

    async def run(self) -> None:
        """Open loop: an order is placed when its time has come, whatever became of those before."""
        now = asyncio.get_running_loop().time
        placed_s = now()
        while True:
            if self.per_s <= 0:
                await asyncio.sleep(_LOOK_S)
                placed_s = now()
                continue
            left_s = placed_s + 1 / self.per_s - now()
            if left_s > 0:
                await asyncio.sleep(min(left_s, _LOOK_S))
                continue
            placed_s = max(placed_s + 1 / self.per_s, now() - _OWED_S)
            task = asyncio.create_task(self._one(f"{self._prefix}-{next(self._numbers)}", next(self._merchants)))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            # Whoever is behind lets others run, too.
            await asyncio.sleep(0)

    async def _one(self, order: str, merchant: str) -> None:
        try:
            await self._place(order, merchant)
        except Exception:
            self.refused += 1
