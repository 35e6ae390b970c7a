"""What a request is called when no framework says its route: method and first path segment, never the raw URL."""

from __future__ import annotations

import functools
import re
from typing import Final

__all__ = ["shape"]

#: A path's first segment names it when it looks like a word; anything else may be somebody's number.
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z_-]{0,31}")

#: Any other method is "OTHER": it comes from the client, and every name takes a place in the table of routes.
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"})
#: Paths whose name is remembered. Arbitrary: others are named again, at about 1 us.
_REMEMBERED_PATHS: Final = 1024


@functools.lru_cache(_REMEMBERED_PATHS)
def shape(method: str, path: str) -> str:
    """Name a request: `GET /bikes/*`.

    A deeper path ends in `/*`, so it never collides with a framework's name for the bare segment.
    """
    first, slash, _rest = path.lstrip("/").partition("/")
    method = method if method in _METHODS else "OTHER"
    word = first if not first or _WORD.fullmatch(first) else "*"
    return f"{method} /{word}/*" if slash else f"{method} /{word}"
