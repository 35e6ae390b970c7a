"""The rules of the permits: settings, in the units and under the names of greenlane-policy."""

from __future__ import annotations

import dataclasses
import sys
from typing import Final

from greenlane.policy.cores import usable_cores
from greenlane.settings import Settings

_NS_PER_MS: Final = 1_000_000


@dataclasses.dataclass(frozen=True)
class PermitRule:
    """Arguments of `_native.Permits`, one for one; times in integer nanoseconds but `interval_s`."""

    permits: int
    #: Once an import has switched the GIL of a free-threaded build on.
    permits_with_gil: int
    heavy_ns: int
    quantile: float
    margin: float
    learn_after: int
    max_routes: int
    max_phases: int
    wait_max_ns: int
    share_ns: int
    interval_s: float

    @classmethod
    def of(cls, settings: Settings) -> PermitRule:
        """Translate settings."""
        return cls(
            permits=permits_of(settings),
            permits_with_gil=settings.permits or 1,
            heavy_ns=round(settings.heavy_ms * _NS_PER_MS),
            quantile=settings.quantile,
            margin=settings.margin,
            learn_after=settings.learn_after,
            max_routes=settings.max_routes,
            max_phases=settings.max_phases,
            wait_max_ns=round(settings.wait_max_ms * _NS_PER_MS),
            share_ns=round(settings.share_ms * _NS_PER_MS),
            interval_s=settings.interval_ms / 1000,
        )


def permits_of(settings: Settings) -> int:
    """How many permits a process has: as set, else one; without a GIL, one core stays with the short phases."""
    if settings.permits:
        return settings.permits
    gil_enabled = getattr(sys, "_is_gil_enabled", lambda: True)
    return 1 if gil_enabled() else max(1, usable_cores() - 1)
