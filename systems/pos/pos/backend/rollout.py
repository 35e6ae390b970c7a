"""How many orders are diverted to the other worker: set here, or by `greenlane divert`, and shown."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from greenlane.errors import GreenlaneError
from greenlane_work.diversion import open_place, set_share
from pos.queueing import DIVERTED, QUEUE

_EVERY_S: Final = 0.5


class Rollout:
    """The share of one flow.

    Args:
        url: the place where it lies; "" = nothing is diverted.
    """

    def __init__(self, url: str) -> None:
        self._place = open_place(url) if url else None
        self._share_frac = 0.0

    async def run(self) -> None:
        """Looks until it is cancelled: others may change it too."""
        while self._place is not None:
            with contextlib.suppress(GreenlaneError):
                self._share_frac = (await asyncio.to_thread(self._place.read, QUEUE)).share_frac
            await asyncio.sleep(_EVERY_S)

    async def set(self, share_frac: float) -> None:
        """So many from now on; producers see it within a second.

        Raises:
            GreenlaneError: the place cannot be written.
        """
        assert self._place is not None
        await asyncio.to_thread(set_share, self._place, QUEUE, share_frac, DIVERTED)
        self._share_frac = share_frac

    def shown(self) -> dict[str, Any] | None:
        """For the page; None when nothing can be diverted."""
        return None if self._place is None else {"share": self._share_frac, "to": DIVERTED}
