"""How much a section draws and lists: a page stays readable, and under about 3 MB."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeVar

from greenlane_tools.page.blocks import note
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import count

__all__ = ["MOST_DRAWN", "MOST_ROWS", "shortened"]

T = TypeVar("T")

MOST_DRAWN: Final = 12
MOST_ROWS: Final = 300


def shortened(found: Sequence[T], most: int = MOST_ROWS) -> tuple[Sequence[T], Html]:
    """The first ones, and a word about those left out; empty when none are."""
    if len(found) <= most:
        return found, Html("")
    return found[:most], note(f"{count(len(found) - most)} more are in `greenlane report --json`.")
