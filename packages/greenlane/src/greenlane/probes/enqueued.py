"""When a message was put into its queue: the headers that publishers write and consumers read.

Two clocks: the monotonic one, with the boot that it counts from, which all processes of one machine share (containers
included), and the wall clock for consumers elsewhere, where the clocks' difference becomes part of the wait.

A message that was published with a countdown or an ETA was put into its queue before it was due: a consumer that reads
`arrival_ns` and knows the ETA takes the later of the two.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import time
from collections.abc import Mapping, MutableMapping
from pathlib import Path
from typing import Final

__all__ = [
    "AT",
    "AT_UNIX",
    "BOOT",
    "COPY",
    "NAMES",
    "RECEIVED",
    "arrival_ns",
    "headers",
    "moment_ns",
    "published",
    "received",
]

#: Names of the headers: monotonic ns, ns since 1970, and the boot that the first counts from.
AT: Final = "greenlane_enqueued_ns"
AT_UNIX: Final = "greenlane_enqueued_unix_ns"
BOOT: Final = "greenlane_boot"
#: Beside them where nobody told at publication: they are of the moment when a worker took it from its broker.
RECEIVED: Final = "greenlane_received"
NAMES: Final = (AT, AT_UNIX, BOOT, RECEIVED)

#: Header of each copy of an order that `greenlane celery` publishes.
COPY: Final = "greenlane-returns"

#: An arrival that lies further back is a wrong clock, or a queue that nobody waits for. Arbitrary: a week.
_OLDEST_NS: Final = 7 * 86_400 * 10**9
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def headers() -> dict[str, int | str]:
    """Give the headers of a message that is published now."""
    return {AT: time.monotonic_ns(), AT_UNIX: time.time_ns(), BOOT: _boot()}


def published(told: Mapping[str, object]) -> dict[str, object]:
    """Give the headers of a message that is published now with `told`; a copy that goes back keeps its times."""
    if COPY in told and AT in told:
        return dict(told)
    return {**{name: value for name, value in told.items() if name != RECEIVED}, **headers()}


def received(told: MutableMapping[str, object]) -> None:
    """Let these headers of a message that is taken from its broker now say so, if they do not tell of more."""
    if AT not in told and AT_UNIX not in told:
        told.update(headers(), **{RECEIVED: True})


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


def moment_ns(moment: object) -> int:
    """Give a task's ETA or expiry on the monotonic clock; 0 = none, or before this machine's start."""
    if isinstance(moment, str):
        with contextlib.suppress(ValueError):
            moment = datetime.datetime.fromisoformat(moment)
    if not isinstance(moment, datetime.datetime):
        return 0
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.UTC)
    return max(0, time.monotonic_ns() + int(moment.timestamp() * 1e9) - time.time_ns())


@functools.cache
def _boot() -> str:
    try:
        return _BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return ""  # a container without /proc/sys: the wall clock then
