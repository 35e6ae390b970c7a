"""When a message was put into its queue: the headers that publishers write and consumers read.

Two clocks: the monotonic one, with the boot that it counts from, which all processes of one machine share (containers
included), and the wall clock for consumers elsewhere, where the clocks' difference becomes part of the wait.

A message that was published with a countdown or an ETA was put into its queue before it was due: whoever reads
`arrival_ns` and knows the ETA takes the later of the two.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

__all__ = ["AT", "AT_UNIX", "BOOT", "NAMES", "arrival_ns", "headers"]

#: Names of the headers: monotonic ns, ns since 1970, and the boot that the first counts from.
AT: Final = "greenlane_enqueued_ns"
AT_UNIX: Final = "greenlane_enqueued_unix_ns"
BOOT: Final = "greenlane_boot"
NAMES: Final = (AT, AT_UNIX, BOOT)

#: An arrival that lies further back is a wrong clock, or a queue that nobody waits for. Arbitrary: a week.
_OLDEST_NS: Final = 7 * 86_400 * 10**9
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def headers() -> dict[str, int | str]:
    """Give the headers of a message that is published now."""
    return {AT: time.monotonic_ns(), AT_UNIX: time.time_ns(), BOOT: _boot()}


def arrival_ns(told: Mapping[str, object]) -> int:
    """Give, on this machine's monotonic clock, when a message with these headers was published; 0 = they do not tell.

    Example:
        >>> time.monotonic_ns() - arrival_ns(headers()) < 10**9
        True
        >>> arrival_ns({})
        0
    """
    now_ns = time.monotonic_ns()
    at_ns, unix_ns = told.get(AT), told.get(AT_UNIX)
    if not isinstance(at_ns, int) or not _boot() or told.get(BOOT) != _boot():
        at_ns = now_ns - (time.time_ns() - unix_ns) if isinstance(unix_ns, int) else 0
    return min(at_ns, now_ns) if at_ns > max(0, now_ns - _OLDEST_NS) else 0


@functools.cache
def _boot() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""  # a container without /proc/sys: the wall clock then
