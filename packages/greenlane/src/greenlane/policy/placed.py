"""The rules of placed calls: settings, in the units and under the names of greenlane-policy."""

from __future__ import annotations

import dataclasses
from typing import Final

from greenlane.policy import permits
from greenlane.policy.cores import usable_cores
from greenlane.policy.permits import permits_of
from greenlane.settings import Settings

__all__ = ["CallRule", "QueueRule", "workers_of"]

#: Functions of up to this run where they are called: another thread costs about 0.05 ms and up to one switch interval;
#: an event loop tolerates 1 ms.
INLINE_MS: Final = 1.0

_NS_PER_MS: Final = 1_000_000


@dataclasses.dataclass(frozen=True)
class CallRule:
    """Arguments of `_native.CallProfile`, one for one: which functions run where their caller is."""

    light_ns: int
    quantile: float
    margin: float
    learn_after: int

    @classmethod
    def of(cls, settings: Settings) -> CallRule:
        """Translate settings."""
        return cls(
            light_ns=round(INLINE_MS * _NS_PER_MS),
            quantile=permits.QUANTILE,
            margin=permits.MARGIN,
            learn_after=permits.LEARN_AFTER,
        )

    @classmethod
    def heavy(cls, settings: Settings) -> CallRule:
        """The same by `heavy_ms`: which functions take turns."""
        return dataclasses.replace(CallRule.of(settings), light_ns=round(settings.heavy_ms * _NS_PER_MS))


@dataclasses.dataclass(frozen=True)
class QueueRule:
    """How calls wait for the native thread."""

    # Calls that run at once: one under the GIL.
    threads: int
    # Calls that may wait; the next one is refused. None = any number.
    most_waiting: int | None
    # CPU after which others begin beside a call.
    share_ns: int

    @classmethod
    def of(cls, settings: Settings) -> QueueRule:
        """Translate settings."""
        return cls(
            threads=permits_of(settings),
            most_waiting=settings.placed_queue,
            share_ns=permits.SHARE_MS * _NS_PER_MS,
        )


def workers_of(settings: Settings, cores: int = 0) -> int:
    """Give how many worker processes there are to be.

    One core is left to the loop, but of two: one worker alone would serve its callers one after the other.

    Args:
        settings: `process_workers`; 0 = by the cores.
        cores: usable ones; 0 = those of this process.
    """
    cores = cores or usable_cores()
    return settings.process_workers or min(cores, max(cores - 1, 2))
