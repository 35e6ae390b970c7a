"""How fast the cores of this machine are while a run goes on."""

from __future__ import annotations

import time
from typing import Final

from greenlane_tools._native import core_loop_ns

__all__ = ["CoreSpeed"]

#: Between two looks, s: each takes 0.06 ms of a core that the contender may want.
_PAUSE_S: Final = 0.5


class CoreSpeed:
    """The mean of the looks that were taken."""

    def __init__(self) -> None:
        self._sum_ns, self._looks, self._looked_s = 0, 0, 0.0

    def look(self) -> None:
        """Times the loop, unless it was timed a moment ago."""
        now_s = time.monotonic()
        if now_s - self._looked_s < _PAUSE_S:
            return
        self._looked_s = now_s
        self._sum_ns += core_loop_ns()
        self._looks += 1

    @property
    def loop_ns(self) -> float:
        """What the loop took; 0 = it was never timed."""
        return self._sum_ns / self._looks if self._looks else 0.0
