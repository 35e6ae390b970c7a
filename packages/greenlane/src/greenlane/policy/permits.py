"""The rules of the permits: settings, in the units and under the names of greenlane-policy."""

from __future__ import annotations

import dataclasses
import sys
from typing import Final

from greenlane.policy.cores import usable_cores
from greenlane.settings import Settings

#: Of the learned bursts that counts as the expected one: a route whose cache misses on every fifth call is heavy,
#: whatever a hit takes.
QUANTILE: Final = 0.9
#: Factor on the expected burst: errors to either side cost little and are corrected by learning.
MARGIN: Final = 1.0
#: Samples of a phase before it is judged. The first call imports and fills caches; two more show what is usual.
LEARN_AFTER: Final = 3
#: Longest wait for a permit: at 0.9 of a worker, giving up after 250 ms or 1 s adds competitors, and every tail grows.
WAIT_MAX_MS: Final = 10_000
#: CPU after which the holder of a permit shares it. At 100 one quote of the demo in twelve had four threads at the GIL,
#: and every class paid for it (docs/design/0024).
SHARE_MS: Final = 400
#: Routes and, of each, phases told apart. Arbitrary; they bound memory where an application has no route names.
MAX_ROUTES: Final = 512
MAX_PHASES: Final = 64

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
            quantile=QUANTILE,
            margin=MARGIN,
            learn_after=LEARN_AFTER,
            max_routes=MAX_ROUTES,
            max_phases=MAX_PHASES,
            wait_max_ns=WAIT_MAX_MS * _NS_PER_MS,
            share_ns=SHARE_MS * _NS_PER_MS,
            interval_s=settings.interval_ms / 1000,
        )


def permits_of(settings: Settings) -> int:
    """How many permits a process has: as set, else one; without a GIL, one core stays with the short phases."""
    if settings.permits:
        return settings.permits
    gil_enabled = getattr(sys, "_is_gil_enabled", lambda: True)
    return 1 if gil_enabled() else max(1, usable_cores() - 1)
