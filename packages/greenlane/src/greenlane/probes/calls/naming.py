"""What upstreams and operations are called: few names, no value of anybody's request in them.

An upstream is `host:port`. There are at most 256 of them in a process (a crawler meets more), further ones are called
"(other)"; likewise at most 1024 operations, further ones keep their first word.
"""

from __future__ import annotations

import functools
from typing import Any, Final
from urllib.parse import urlsplit

from greenlane.probes.routes import shape

__all__ = ["PORTS", "http_operation", "operation", "origin", "seconds", "upstream"]

#: Port of a scheme when a URL names none.
PORTS: Final = {
    "http": 80,
    "https": 443,
    "ws": 80,
    "wss": 443,
    "amqp": 5672,
    "pyamqp": 5672,
    "amqps": 5671,
    "redis": 6379,
    "rediss": 6379,
    "postgresql": 5432,
    "mysql": 3306,
    "mariadb": 3306,
    "mssql": 1433,
    "oracle": 1521,
}

OTHER: Final = "(other)"
_MOST_UPSTREAMS: Final = 256
_MOST_OPERATIONS: Final = 1024
_REMEMBERED_URLS: Final = 1024
_NUMBERS: Final = (int, float)
#: A longer name is cut: arbitrary, twice a long task's.
_LONGEST: Final = 128

_upstreams: Final[set[str]] = set()
_operations: Final[set[str]] = set()


def upstream(host: str | None, port: Any = None) -> str:
    """Name a server. A path (Unix socket) stays as it is; no host is "(local)"."""
    name = host or "(local)"
    if port:
        name = f"[{name}]:{port}" if ":" in name else f"{name}:{port}"
    name = name[:_LONGEST]
    if name not in _upstreams:
        if len(_upstreams) >= _MOST_UPSTREAMS:
            return OTHER
        _upstreams.add(name)
    return name


def operation(name: str) -> str:
    """Name an operation, such as `GET /bikes/*`, `SELECT bikes`, `PUBLISH shop.tasks.render`."""
    name = name[:_LONGEST]
    if name not in _operations:
        if len(_operations) >= _MOST_OPERATIONS:
            return name.partition(" ")[0]
        _operations.add(name)
    return name


def http_operation(method: object, path: str) -> str:
    """Name a request: method and first path segment."""
    return operation(shape(str(method).upper(), path.partition("?")[0]))


@functools.lru_cache(_REMEMBERED_URLS)
def origin(url: str) -> tuple[str, str]:
    """Give (upstream, path) of a URL."""
    parts = urlsplit(url)
    return upstream(parts.hostname or parts.scheme, parts.port or PORTS.get(parts.scheme)), parts.path


def seconds(*timeouts: object) -> float | None:
    """Give the first of `timeouts` that is a positive number; None when none is."""
    for timeout in timeouts:
        if isinstance(timeout, _NUMBERS) and timeout > 0:
            return float(timeout)
    return None
