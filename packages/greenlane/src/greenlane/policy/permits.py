"""The rules of the permits: settings, in the units and under the names of greenlane-policy."""

from __future__ import annotations

import dataclasses
import os
import sys
from typing import Final

from greenlane.settings import Settings

#: Shortest bound of a wait for a permit. A queue of two phases of 5 ms would otherwise be given up after 40 ms, which
#: one page fault or one turn of another process takes.
WAIT_MIN_MS: Final = 50.0
_NS_PER_MS: Final = 1_000_000


@dataclasses.dataclass(frozen=True)
class PermitRule:
    """Arguments of `_native.Permits`, one for one; times in integer nanoseconds but `interval_s`."""

    permits: int
    discipline: str
    ageing_ns: int
    heavy_ns: int
    quantile: float
    margin: float
    learn_after: int
    max_routes: int
    max_phases: int
    wait_factor: float
    wait_min_ns: int
    wait_max_ns: int
    hold_factor: float
    hold_min_ns: int
    interval_s: float

    @classmethod
    def of(cls, settings: Settings) -> PermitRule:
        """Translate settings."""
        return cls(
            permits=permits_of(settings),
            discipline=settings.discipline,
            ageing_ns=round(settings.ageing_ms * _NS_PER_MS),
            heavy_ns=round(settings.heavy_ms * _NS_PER_MS),
            quantile=settings.quantile,
            margin=settings.margin,
            learn_after=settings.learn_after,
            max_routes=settings.max_routes,
            max_phases=settings.max_phases,
            wait_factor=settings.wait_factor,
            wait_min_ns=round(WAIT_MIN_MS * _NS_PER_MS),
            wait_max_ns=round(settings.wait_max_ms * _NS_PER_MS),
            hold_factor=settings.hold_factor,
            hold_min_ns=round(settings.hold_min_ms * _NS_PER_MS),
            interval_s=settings.interval_ms / 1000,
        )


def permits_of(settings: Settings) -> int:
    """How many permits a process has: as set, else one under the GIL and the usable cores without it."""
    if settings.permits:
        return settings.permits
    gil_enabled = getattr(sys, "_is_gil_enabled", lambda: True)
    return 1 if gil_enabled() else len(os.sched_getaffinity(0))
