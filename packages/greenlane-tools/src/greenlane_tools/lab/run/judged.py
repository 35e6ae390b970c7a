"""A scenario's bounds against what was measured."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from greenlane_tools.lab.run.rows import ALL, CLIENT, Row, find
from greenlane_tools.lab.scenario.bound import RELATIONS, Bound
from greenlane_tools.lab.scenario.scenario import Level, Scenario
from greenlane_tools.page.quantities import amount

__all__ = ["Judgement", "judged"]


@dataclass(frozen=True)
class Judgement:
    """One bound at one level."""

    bound: str
    # The level's label; "" = there is only one.
    level: str
    # NaN = not measured.
    measured: float
    limit: float
    verdict: Literal["holds", "fails", "not measured"]

    def said(self) -> str:
        """As a line."""
        at = f" at {self.level}" if self.level and f" at {self.level}" not in self.bound else ""
        measured = "" if math.isnan(self.measured) else f"  ({amount(self.measured)} against {amount(self.limit)})"
        return f"{self.verdict:<7} {self.bound}{at}{measured}"


def judged(scenario: Scenario, rows: Sequence[Row]) -> list[Judgement]:
    """Every bound at every level that it speaks of, of contenders that took part and tools that are here."""
    present, stages = {row.contender for row in rows}, {"", *(row.stage for row in rows)}
    return [
        _judgement(scenario, one, level, rows)
        for one in scenario.expectations
        if {one.contender, one.rival or one.contender} <= present and one.tool in stages
        for level in _levels(scenario, one)
    ]


def _levels(scenario: Scenario, bound: Bound) -> list[Level]:
    return [level for level in scenario.levels() if bound.level in ("", level.label)]


def _judgement(scenario: Scenario, bound: Bound, level: Level, rows: Sequence[Row]) -> Judgement:
    measured = _value(rows, bound, bound.contender, level)
    factor = _value(rows, bound, bound.rival, level) if bound.rival else 1.0
    label = level.label if len(scenario.levels()) > 1 else ""
    if measured is None or factor is None:
        return Judgement(bound.text, label, math.nan, math.nan, "not measured")
    limit = bound.number * factor
    holds = RELATIONS[bound.relation](measured, limit)
    return Judgement(bound.text, label, measured, limit, "holds" if holds else "fails")


def _value(rows: Sequence[Row], bound: Bound, contender: str, level: Level) -> float | None:
    row = find(rows, contender, bound.endpoint, level, bound.phase or ALL, bound.tool or CLIENT)
    return None if row is None else getattr(row, bound.field)
