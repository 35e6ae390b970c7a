"""Paths as they stand in a request line, for fronts that do not decode them before they compare."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from greenlane_serve.lanes import Match

__all__ = ["encoded"]

# What clients leave as it is, and what a glob means by itself; a `%` of the glob is a character of the decoded path.
_KEPT: Final = "/!$&'()*+,;=:@-._~?[]<>{}^"


def encoded(match: Match) -> Match:
    """The same match for a path whose other characters are written %XX. What stands in `[…]` is left alone."""
    return Match(match.method, quote(match.path, safe=_KEPT))
