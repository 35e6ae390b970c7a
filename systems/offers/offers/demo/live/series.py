"""What is seen of each service, second by second: offerservice's counters, cut."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any, Final

from offers.site import CAP_MS

from ..counts import Counts
from ..rows import nines

__all__ = ["KEPT_S", "Mark", "Seen", "Series"]

#: So long is kept, and shown.
KEPT_S: Final = 240
#: Success and percentiles are of this many last seconds; nines since the service began, or was switched.
WINDOW_S: Final = 20
_SHARES: Final = {"p50_ms": 0.5, "p95_ms": 0.95, "p99_ms": 0.99, "p999_ms": 0.999}


@dataclass(frozen=True)
class Mark:
    """The fix of a service was switched."""

    at_s: float
    region: str
    fix: str


@dataclass(frozen=True)
class Seen:
    """One second of one service, as the page has it: None = nothing was asked."""

    number: int
    at_s: float
    success_frac: float | None
    timeouts_per_s: float
    nines: float | None
    nines_is_bound: bool
    percentiles_ms: dict[str, float | None]
    cpu_frac: float

    def row(self) -> dict[str, Any]:
        """For the page."""
        return {
            "t": round(self.at_s, 2), "success_frac": self.success_frac, "timeouts_per_s": self.timeouts_per_s,
            "nines": self.nines, "nines_is_bound": self.nines_is_bound, "cpu_frac": round(self.cpu_frac, 3),
            **self.percentiles_ms,
        }  # fmt: skip


@dataclass
class Series:
    """Of one service."""

    seen: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT_S))
    _looks: deque[tuple[float, Counts]] = field(default_factory=lambda: deque(maxlen=WINDOW_S + 1))
    _from: Counts | None = None
    #: When nines start over; None = they have.
    _anew_s: float | None = None

    def switched(self, at_s: float) -> None:
        """Its nines are counted again from the first look on by which all that was asked before is made or late."""
        self._anew_s = at_s + CAP_MS / 1e3

    def look(self, number: int, at_s: float, counts: Counts, cpu_frac: float) -> None:
        """Once a second.

        Args:
            number: of the look, the same for all services.
            at_s: when.
            counts: cumulative.
            cpu_frac: of one core, since the last look.
        """
        if self._anew_s is not None and at_s >= self._anew_s:
            self._from, self._anew_s = counts, None
        elif self._from is None:
            self._from = counts
        before_s, before = self._looks[-1] if self._looks else (at_s, counts)
        self._looks.append((at_s, counts))
        recent, whole, last = counts.since(self._looks[0][1]), counts.since(self._from), counts.since(before)
        its_nines, is_bound = nines(whole.made, whole.ended)
        self.seen.append(Seen(
            number, at_s, recent.made / recent.ended if recent.ended else None,
            last.late / (at_s - before_s) if at_s > before_s else 0.0, its_nines, is_bound,
            {name: _known(recent.quantile_ms(share)) for name, share in _SHARES.items()}, cpu_frac,
        ))  # fmt: skip

    def since(self, number: int) -> list[dict[str, Any]]:
        """Rows of later looks."""
        return [one.row() for one in self.seen if one.number > number]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else round(value, 1)
