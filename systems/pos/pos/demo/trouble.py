"""What goes wrong at merchants in a slow-merchant run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from pos.merchants.names import SLOW

Trouble = Literal["one-slow", "two-slow", "recovers", "flood"]
TROUBLES: Final[Mapping[Trouble, str]] = {
    "one-slow": f"{SLOW} takes --slow-s a call",
    "two-slow": f"{SLOW} and pizza do, from the same moment on",
    "recovers": f"{SLOW} does, answers 200 all the same, and recovers in the middle of the run",
    "flood": f"{SLOW} is healthy, and gets 200 more orders a second from one customer",
}
_SECOND: Final = "pizza"
FLOOD_PER_S: Final = 200.0


@dataclass(frozen=True)
class Course:
    """How a run goes.

    Args:
        troubled: merchants whose orders are no healthy ones.
        laws: (share of the run at which, merchant, is slow from then on).
        flood_per_s: orders a second for the first of them beyond its own.
    """

    troubled: tuple[str, ...]
    laws: tuple[tuple[float, str, bool], ...]
    flood_per_s: float = 0.0


def course(trouble: Trouble) -> Course:
    """What is done in a run with this trouble."""
    if trouble == "flood":
        return Course((SLOW,), (), FLOOD_PER_S)
    slow = (SLOW, _SECOND) if trouble == "two-slow" else (SLOW,)
    laws = [(0.0, name, True) for name in slow]
    if trouble == "recovers":
        laws.append((0.5, SLOW, False))
    return Course(slow, tuple(laws))
