"""An order's result as the store keeps it: JSON, the same from every worker, so that each side reads the other's."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["packed", "unpacked"]


def packed(result: object) -> bytes:
    """Give the bytes of a result; none of one that is not JSON: done is done, though what it gave cannot be kept."""
    try:
        return json.dumps(result, separators=(",", ":")).encode()
    except Exception:  # the call is made, whatever its result says when it is written down
        return b""


def unpacked(kept: bytes) -> Any:
    """Give the result of these bytes; None where none was kept, or something else by somebody else's `Store.done`."""
    try:
        return json.loads(kept) if kept else None
    except (ValueError, RecursionError):
        return None
