"""What was predicted of a route beside what was measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from greenlane_tools.page.quantities import milliseconds

__all__ = ["COLUMNS", "P50_FRAC", "P99_FRAC", "WITHIN_FRAC", "Compared", "row_of", "table_of"]

#: A share that was predicted is right within this, or within what so few requests can tell.
WITHIN_FRAC: Final = 0.003
#: Percentiles are right within these shares of what was measured.
P50_FRAC: Final = 0.07
P99_FRAC: Final = 0.20
#: Of the table for people.
COLUMNS: Final = (
    "set-up", "route", "in time: predicted", "measured", "p50: predicted", "measured p50", "p99: predicted",
    "measured p99", "samples", "misses", "because",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """One route of one set-up. None = too few requests, or no limit."""

    contender: str
    route: str
    limit_ms: float | None
    predicted_within: float | None
    measured_within: float | None
    measured_low: float | None
    measured_high: float | None
    predicted_p50_ms: float | None
    measured_p50_ms: float | None
    predicted_p99_ms: float | None
    measured_p99_ms: float | None
    samples: int
    #: Of what was predicted wrongly: why, as far as it was found.
    reasons: tuple[str, ...] = ()

    @property
    def misses(self) -> tuple[str, ...]:
        """What was predicted wrongly, in words."""
        found = []
        if self.predicted_within is not None and self.measured_within is not None:
            off = self.predicted_within - self.measured_within
            inside = (self.measured_low or 0.0) <= self.predicted_within <= (self.measured_high or 1.0)
            if abs(off) > WITHIN_FRAC and not inside:
                found.append(f"in time {self.predicted_within:.2%} predicted, {self.measured_within:.2%} measured")
        for name, predicted, measured, most in (
            ("p50", self.predicted_p50_ms, self.measured_p50_ms, P50_FRAC),
            ("p99", self.predicted_p99_ms, self.measured_p99_ms, P99_FRAC),
        ):
            if predicted is not None and measured and abs(predicted / measured - 1) > most:
                found.append(f"{name} {predicted:.0f} ms predicted, {measured:.0f} ms measured")
        return tuple(found)


def row_of(one: Compared) -> dict[str, object]:
    """For programs."""
    return {
        "view": "verify",
        "contender": one.contender,
        "endpoint": one.route,
        "limit_ms": one.limit_ms,
        "predicted_within_deadline_frac": one.predicted_within,
        "within_deadline_frac": one.measured_within,
        "within_deadline_low_frac": one.measured_low,
        "within_deadline_high_frac": one.measured_high,
        "predicted_p50_ms": one.predicted_p50_ms,
        "p50_ms": one.measured_p50_ms,
        "predicted_p99_ms": one.predicted_p99_ms,
        "p99_ms": one.measured_p99_ms,
        "samples": one.samples,
        "misses": list(one.misses),
        "reasons": list(one.reasons),
    }


def table_of(rows: Iterable[Compared]) -> list[dict[str, object]]:
    """For people."""
    return [
        {
            "set-up": one.contender,
            "route": one.route,
            "in time: predicted": _share(one.predicted_within),
            "measured": _share(one.measured_within),
            "p50: predicted": _ms(one.predicted_p50_ms),
            "measured p50": _ms(one.measured_p50_ms),
            "p99: predicted": _ms(one.predicted_p99_ms),
            "measured p99": _ms(one.measured_p99_ms),
            "samples": one.samples,
            "misses": "; ".join(one.misses) or "none",
            "because": "; ".join(one.reasons),
        }
        for one in rows
    ]


def _share(share: float | None) -> str | None:
    return None if share is None else f"{share:.2%}".replace("%", " %")


def _ms(ms: float | None) -> str | None:
    return None if ms is None else milliseconds(ms)
