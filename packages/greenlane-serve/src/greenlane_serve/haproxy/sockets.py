"""WebSockets beside requests: a backend with the same workers, without their places. Pure.

A WebSocket lasts for hours and mostly sleeps. Counted as a request in progress, `at_once` of them would fill a worker.
So each group has a second backend on the same sockets, with a limit of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from greenlane_serve.haproxy import diverted
from greenlane_serve.haproxy.requests import SOCKET
from greenlane_serve.layout import SHARED, Layout
from greenlane_serve.versions import version_of

__all__ = ["backend", "twins", "used"]

_PREFIX: Final = "sockets-"


def backend(group: str) -> str:
    """The backend of a group's WebSockets."""
    return _PREFIX + group


def used(layout: Layout) -> Iterator[str]:
    """Which backend a WebSocket goes to: of the public frontend, before its other backends."""
    for group in layout.groups:
        if version_of(group):
            yield f"use_backend {backend(group)} if {SOCKET} {diverted.taken(group)}"
    for lane in layout.lanes:
        if lane.hard:
            yield f"use_backend {backend(layout.group_of(lane))} if {SOCKET} {{ var(txn.lane) -m str {lane.name} }}"
    yield f"use_backend {backend(SHARED)} if {SOCKET}"


def twins(configuration: str) -> dict[str, str]:
    """Group -> the backend of its WebSockets, in a configuration."""
    groups = re.findall(rf"^backend {_PREFIX}(\S+)$", configuration, re.MULTILINE)
    return {group: backend(group) for group in groups}
