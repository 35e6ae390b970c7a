"""An order's result as the store keeps it: JSON where that can say it, else pickle where the app pickles anyway."""

from __future__ import annotations

import contextlib
import pickle
from typing import Any, Final

__all__ = ["packed", "unpacked"]

#: A pickle begins so, and no JSON does.
_PICKLE: Final = b"\x80"


def packed(result: object, *, pickled: bool = False) -> bytes:
    """Give an order's result as the store keeps it: JSON, with dates, decimals and UUIDs as Celery writes them.

    Args:
        result: of the task's function.
        pickled: where JSON cannot say it, pickle may: for apps whose results are pickled anyway.

    b"" for one that cannot be written: it is done all the same.
    """
    from kombu.utils.json import dumps

    try:
        return bytes(dumps(result, separators=(",", ":")).encode())
    except Exception:  # the call is made, whatever its result says when it is written down
        with contextlib.suppress(Exception):
            return pickle.dumps(result, pickle.HIGHEST_PROTOCOL) if pickled else b""
        return b""


def unpacked(kept: bytes, *, pickled: bool = False) -> Any:
    """Give the result of these bytes; None where none was kept, or something else by somebody else's `Store.done`."""
    from kombu.utils.json import loads

    try:
        if kept.startswith(_PICKLE):
            return pickle.loads(kept) if pickled else None
        return loads(kept) if kept else None
    except Exception:
        return None
