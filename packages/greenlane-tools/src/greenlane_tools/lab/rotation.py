"""Who goes first: contenders take turns over repetitions, so that none has the machine's better hour."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

__all__ = ["in_turns"]

T = TypeVar("T")


def in_turns(contenders: Sequence[T], repetition: int) -> list[T]:
    """Their order in one repetition: everybody is first once in as many as there are."""
    at = repetition % len(contenders)
    return [*contenders[at:], *contenders[:at]]
