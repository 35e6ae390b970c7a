"""The rules of `greenlane serve`'s live decisions: settings, in the units and under the names of greenlane-policy."""

from __future__ import annotations

import dataclasses
from typing import Final

from greenlane_serve.settings import ServeSettings

__all__ = ["ApartRule", "AtOnceRule"]

_NS_PER_MS: Final = 1_000_000
#: Share of the time in which a worker should compute while requests wait: some 1.5 times the knee, 1 + I/O / CPU, which
#: itself loses 16 to 24 % of the capacity when bursts vary.
_BUSY: Final = 0.98
#: From an answer until the next request is there: two turns of the front's and of the worker's loop. Arbitrary.
_GAP_MS: Final = 0.2
#: A second is ten times what one request takes; 20 requests tell a mean to a quarter when they vary by their own size.
_WINDOW_MS: Final = 1000
_WINDOW_JOBS: Final = 20
#: Requests of a route before it goes to a lane apart: the first ones import and fill caches.
_LEARN_AFTER: Final = 10


@dataclasses.dataclass(frozen=True)
class AtOnceRule:
    """Arguments of `_native.AtOnce`, one for one, but `first`."""

    busy: float
    least: int
    most: int
    gap_ns: int
    window_ns: int
    window_jobs: int

    @classmethod
    def of(cls, settings: ServeSettings, *, threads: bool) -> AtOnceRule:
        """Translate settings; `threads`: a worker has no more places than threads, or than its `limit`."""
        bounds = [settings.at_once_max]
        bounds += [settings.threads] if threads else []
        bounds += [settings.limit] if settings.limit else []
        most = min(bounds)
        return cls(
            busy=_BUSY,
            least=min(settings.at_once_min, most),
            most=most,
            gap_ns=round(_GAP_MS * _NS_PER_MS),
            window_ns=_WINDOW_MS * _NS_PER_MS,
            window_jobs=_WINDOW_JOBS,
        )


@dataclasses.dataclass(frozen=True)
class ApartRule:
    """Arguments of `_native.Apart`, one for one."""

    over_ns: int
    learn_after: int

    @classmethod
    def of(cls, settings: ServeSettings) -> ApartRule:
        """Translate settings."""
        return cls(over_ns=round(settings.auto_lane_ms * _NS_PER_MS), learn_after=_LEARN_AFTER)
