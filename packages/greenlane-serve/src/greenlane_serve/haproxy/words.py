"""How things are written in a HAProxy configuration."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["milliseconds", "section", "word"]

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:@%+=^-]+")


def word(text: str) -> str:
    """One word: quoted where it needs to be. The text must hold no line break: none can be written."""
    if _PLAIN.fullmatch(text):
        return text
    assert "\n" not in text and "\r" not in text and "\0" not in text
    return "'" + text.replace("'", "'\\''") + "'"


def section(head: str, lines: Iterable[str]) -> list[str]:
    """A section: its head, and its lines set in."""
    return [head, *(f"    {line}" for line in lines)]


def milliseconds(seconds: float) -> str:
    """A time; 0 would be none, so it is 1 ms at least."""
    return f"{max(1, round(seconds * 1000))}ms"
