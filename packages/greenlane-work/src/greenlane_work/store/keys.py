"""What an order's key and a reason may be, in every store alike."""

from __future__ import annotations

import hashlib
from typing import Final

__all__ = ["KEY_CHARACTERS", "checked_key", "checked_reason", "fitted_key"]

#: A business id, not a payload. Fits every store's index.
KEY_CHARACTERS: Final = 512
_REASON_CHARACTERS: Final = 500


def checked_key(key: str) -> str:
    """Give the key back. Raises ValueError."""
    rule = f"a text of 1 to {KEY_CHARACTERS} characters without NUL and without halves of surrogate pairs"
    if not isinstance(key, str) or not 0 < len(key) <= KEY_CHARACTERS or "\0" in key or not _encodable(key):
        raise ValueError(f"name an order: key={key!r:.200}, expected {rule}")
    return key


def fitted_key(text: str, most_characters: int = KEY_CHARACTERS) -> str:
    """Give a key for any text that is not empty: itself, or as much of it as fits with a hash of all of it.

    Two texts never give one key: where it names an order, the second one would be taken for done.
    """
    if len(text) <= most_characters and "\0" not in text and _encodable(text):
        return text
    raw = text.encode(errors="surrogatepass")
    hashed = hashlib.blake2b(raw, digest_size=16).hexdigest()
    head = raw.decode("ascii", "replace").replace("\0", "").replace("\ufffd", "?")
    return f"{head[: most_characters - len(hashed) - 1]}~{hashed}"


def checked_reason(reason: str) -> str:
    """Give a reason that every store takes: shortened, and what cannot be written is escaped."""
    text = str(reason)[:_REASON_CHARACTERS].replace("\0", "\\0")
    return text if _encodable(text) else text.encode("ascii", "backslashreplace").decode()


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
