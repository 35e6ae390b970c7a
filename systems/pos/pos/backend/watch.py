"""What Greenlane's workers tell of themselves, asked now and then off the loop."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

from pos.looking import look_at_all, together

_EVERY_S: Final = 0.5


class Watch:
    """The workers' last answers.

    Args:
        folder: of their sockets; None = nobody is asked.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._workers: list[dict[str, Any]] = []
        self._keys: dict[str, dict[str, Any]] = {}

    async def run(self) -> None:
        """Asks until it is cancelled."""
        while self._folder is not None:
            self._workers = await asyncio.to_thread(look_at_all, self._folder)
            self._keys = together(self._workers)
            await asyncio.sleep(_EVERY_S)

    def upstream(self, merchant: str) -> dict[str, Any] | None:
        """Parked, running, limit and breaker of a merchant in all workers; None when nobody knows it."""
        return self._keys.get(merchant)

    def said(self) -> str:
        """The workers in a line."""
        return "; ".join(
            f"greenlane ({one['mode']}): {one['running']} of {one['slots']} slots, {one['parked']} parked"
            for one in self._workers
        )
