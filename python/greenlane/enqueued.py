"""When a message was put into its queue: the header that publishers write and consumers read.

The value is `<ns>@<boot id>`: the publisher's monotonic clock and which boot of which machine it counts from. All
processes of one boot share that clock, containers included; a consumer elsewhere cannot compare it, and does not.

A message that was published with a countdown or an ETA was put into its queue before it was due: whoever reads
`arrival_ns` and knows the ETA takes the later of the two.
"""

from __future__ import annotations

import functools
import re
import time
from pathlib import Path
from typing import Final

__all__ = ["HEADER", "arrival_ns", "stamp"]

#: Name of the header.
HEADER: Final = "greenlane_enqueued_ns"

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")
_VALUE: Final = re.compile(r"(\d{1,19})@([0-9a-f-]{36})")


def stamp() -> str:
    """Give the header's value for a message that is published now."""
    return f"{time.monotonic_ns()}@{_boot()}"


def arrival_ns(value: object) -> int:
    """Give the monotonic ns of a header's value; 0 if it is none, of another boot, or in the future.

    Example:
        >>> now_ns = time.monotonic_ns()
        >>> now_ns <= arrival_ns(stamp()) <= time.monotonic_ns()
        True
        >>> arrival_ns("12@another machine"), arrival_ns(None)
        (0, 0)
    """
    match = _VALUE.fullmatch(value) if isinstance(value, str) else None
    if match is None or match[2] != _boot():
        return 0
    at_ns = int(match[1])
    return at_ns if at_ns <= time.monotonic_ns() else 0


@functools.cache
def _boot() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        # A container without /proc/sys: 36 characters that nobody's boot has, so that nobody compares.
        return "-" * 36
