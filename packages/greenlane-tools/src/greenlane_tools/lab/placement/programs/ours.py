"""Our placements, pinned and chosen: the same call gives an awaitable on a loop and the result in a greenlet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from greenlane.wiring.placed_calls import placed, placement

__all__ = ["PLACEMENTS", "chosen", "pinned"]

#: Our contenders, and what their functions are pinned to.
PLACEMENTS: dict[str, Any] = {"thread": "thread", "process": "process", "greenlane": "auto"}


def pinned(contender: str, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give `fn` as that contender places it."""
    return placed(placement=PLACEMENTS[contender])(fn)


def chosen() -> tuple[str, str]:
    """Where calls of the one function that this process places go by now, and why."""
    (row,) = placement().placed()
    return row.placement, row.reason
