"""Text that means itself in a HAProxy configuration."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["word"]

_PLAIN: Final = re.compile(r"[A-Za-z0-9_./:@%+=^-]+")


def word(text: str) -> str:
    """One word: quoted where it needs to be. The text must hold no line break: none can be written."""
    if _PLAIN.fullmatch(text):
        return text
    assert "\n" not in text and "\r" not in text and "\0" not in text
    return "'" + text.replace("'", "'\\''") + "'"
