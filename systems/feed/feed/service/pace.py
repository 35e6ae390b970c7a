"""How long a computation that nothing can interrupt will take: asked before, so that no answer comes too late."""

from __future__ import annotations

from typing import Final

# Weight of the newest measurement.
_NEWEST: Final = 0.2
# A pace that is too slow for every deadline is forgotten bit by bit, else nobody would ever measure again.
_FORGOTTEN: Final = 0.95


class Pace:
    """Seconds an item, learned; 0 until something was measured."""

    def __init__(self) -> None:
        self._item_s = 0.0

    def fits(self, items: int, left_s: float) -> bool:
        """So many items are expected to be done in the time that is left."""
        if left_s > 0 and self._item_s * items <= left_s:
            return True
        self._item_s *= _FORGOTTEN
        return False

    def took(self, items: int, seconds: float) -> None:
        """A measurement."""
        one_s = seconds / max(1, items)
        self._item_s += _NEWEST * (one_s - self._item_s) if self._item_s else one_s
