"""What the workers do and have done, for metrics, reports and whoever chooses where a function runs."""

from __future__ import annotations

import dataclasses

from greenlane.placement import ExecutorStats

__all__ = ["ArenaStats", "Crossed"]


@dataclasses.dataclass(frozen=True)
class ArenaStats(ExecutorStats):
    """Counts since the executor was made."""

    # Worker processes started, and those that ended without being asked to.
    starts: int = 0
    deaths: int = 0
    # Answers whose caller had left.
    late: int = 0
    # Messages, either way, that found no room in an arena and took the slow way: raise arena_mb if they are many.
    overflows: int = 0
    # What was pickled, and what was copied as it lies; both ways together.
    in_band_bytes: int = 0
    out_of_band_bytes: int = 0
    # Of all arenas for arguments: given out, and not yet known to be free again.
    lent_bytes: int = 0


@dataclasses.dataclass(frozen=True)
class Crossed:
    """What has crossed to some workers and back; see `ArenaStats`."""

    overflows: int = 0
    in_band_bytes: int = 0
    out_of_band_bytes: int = 0

    def __add__(self, other: Crossed) -> Crossed:
        """Of both."""
        return Crossed(
            self.overflows + other.overflows,
            self.in_band_bytes + other.in_band_bytes,
            self.out_of_band_bytes + other.out_of_band_bytes,
        )
