"""What was predicted of a route beside what was measured: a measurement is in its band, or not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from greenlane_tools.page.quantities import milliseconds
from greenlane_tools.plan.band import Band
from greenlane_tools.plan.goal import level_said, per_cent

#: Of the table for people.
COLUMNS: Final = (
    "set-up", "route", "percentile", "predicted", "measured", "is", "in time", "measured in time", "samples",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Compared:
    """One goal under one set-up. `measured_ms`: None = too few requests for the percentile."""

    contender: str
    band: Band
    measured_ms: float | None
    measured_within: float | None
    samples: int

    @property
    def inside(self) -> bool | None:
        """Whether the percentile was measured in its band. None = it was not measured."""
        if self.measured_ms is None:
            return None
        return self.band.low_ms <= self.measured_ms <= self.band.high_ms


def row_of(one: Compared) -> dict[str, object]:
    """For programs."""
    return {
        "view": "verify",
        "contender": one.contender,
        "endpoint": one.band.goal.route,
        "goal": one.band.goal.said(),
        "predicted_low_ms": one.band.low_ms,
        "predicted_high_ms": one.band.high_ms,
        "latency_ms": one.measured_ms,
        "inside": one.inside,
        "predicted_within_low_frac": one.band.low_within,
        "predicted_within_high_frac": one.band.high_within,
        "within_deadline_frac": one.measured_within,
        "samples": one.samples,
    }


def table_of(rows: Iterable[Compared]) -> list[dict[str, object]]:
    """For people."""
    return [
        {
            "set-up": one.contender,
            "route": one.band.goal.route,
            "percentile": level_said(one.band.goal.share),
            "predicted": f"{milliseconds(one.band.low_ms)} to {milliseconds(one.band.high_ms)}",
            "measured": None if one.measured_ms is None else milliseconds(one.measured_ms),
            "is": {True: "in", False: "out", None: "too few"}[one.inside],
            "in time": f"{per_cent(one.band.low_within)} to {per_cent(one.band.high_within)}",
            "measured in time": None if one.measured_within is None else per_cent(one.measured_within),
            "samples": one.samples,
        }
        for one in rows
    ]
