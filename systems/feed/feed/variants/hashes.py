"""`hashes`: an item is a Redis hash of 50 fields; HGETALL, features in Python, lists; computed in the loop."""

from __future__ import annotations

from .plain import Plain
from .ranking import Given


def ranking(given: Given) -> Plain:
    """The variant."""
    return Plain(given, "hashes")
