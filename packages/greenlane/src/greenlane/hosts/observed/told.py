"""What a request's headers say of its arrival and its deadline: read alike under every asyncio server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from greenlane import bootstrap, deadline
from greenlane.hosts.observed import front_clock

__all__ = ["NAMES", "arrival_and_due"]

#: Headers that are read: as they are written -> as WSGI has them, and as they are wanted below.
NAMES: Final = {
    name: "HTTP_" + name.upper().replace("-", "_") for name in (*front_clock.NAMES, *bootstrap.DEADLINE_HEADERS)
}
_DEADLINES: Final = deadline.environ_names(bootstrap.DEADLINE_HEADERS)


def arrival_and_due(told: Mapping[str, str], arrival: tuple[int, str]) -> tuple[int, str, int]:
    """Give when a request arrived, by which clock, and when it is due (0 = it does not say).

    Args:
        told: those of its headers that are read, as WSGI has them.
        arrival: without them: (monotonic ns or 0 = unknown, the clock's name).
    """
    arrival_ns, clock = arrival
    front_ns = front_clock.environ_arrival_ns(told)
    if front_ns:
        arrival_ns, clock = front_ns, "header"
    due_ns = deadline.due_ns(told, _DEADLINES, arrival_ns) if arrival_ns else 0
    return arrival_ns, clock, due_ns
