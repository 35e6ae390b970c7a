"""Names of culprits that are no routes, as a sentence calls them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["called"]

_CALLED: Final[Mapping[str, str]] = {
    "os": "the operating system, which ran others on this machine",
    "gc": "the garbage collector",
    "native": "native code that held the GIL",
    "loop": "the event loop's own work",
    "thread": "a thread without a job",
    "unknown": "nobody that the recording can name",
}


def called(culprit: str) -> str:
    """The culprit in a sentence; a route is called what it is."""
    return _CALLED.get(culprit, culprit)
