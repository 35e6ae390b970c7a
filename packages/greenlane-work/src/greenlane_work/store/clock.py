"""The clock of leases: it runs on while the machine sleeps, as it does for others who wait for them to end."""

from __future__ import annotations

import time

__all__ = ["NS", "now_ns"]

NS = 1_000_000_000


def now_ns() -> int:
    """Nanoseconds since the machine's start."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
