"""`inline`: an item is a JSON value; MGET, json.loads, features in Python, lists; computed in the loop."""

from __future__ import annotations

from .plain import Plain
from .ranking import Given


def ranking(given: Given) -> Plain:
    """The variant."""
    return Plain(given)
