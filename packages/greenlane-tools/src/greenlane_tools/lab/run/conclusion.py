"""What was seen, in a sentence a class, with its uncertainty: the same rule whoever wins."""

from __future__ import annotations

from collections.abc import Sequence

from greenlane_tools.lab.run.rows import ALL, CLIENT, Row
from greenlane_tools.lab.run.tables import subjects
from greenlane_tools.lab.scenario.scenario import Level, Scenario
from greenlane_tools.page.quantities import duration

__all__ = ["conclusion"]


def conclusion(scenario: Scenario, rows: Sequence[Row]) -> str:
    """About the highest level that was run; a clause for each class that tables show and each closed-loop tool."""
    whole = [row for row in rows if row.phase == ALL]
    if not whole:
        return "Nothing was measured."
    level = whole[-1].level
    cell = [row for row in whole if row.level == level]
    clauses = [
        _class(cell, name, scenario.request_class(name).deadline_ms)
        for name in subjects(scenario)
        if any(row.endpoint == name for row in cell)
    ]
    clauses += [_tool(row) for row in cell if row.stage != CLIENT]
    return f"{_at(level, scenario)}{'; '.join(clauses)}."


def _at(level: Level, scenario: Scenario) -> str:
    if level.utilisation_frac is not None:
        return f"At {level.utilisation_frac:g} of one core: "
    return f"At {level.rate_factor:g} × the rate: " if len(scenario.levels()) > 1 else ""


def _class(cell: Sequence[Row], name: str, deadline_ms: float) -> str:
    found = [row for row in cell if row.endpoint == name and row.stage == CLIENT]
    said = ", ".join(f"{row.contender} {_p(row.p50_ms)} / {_p(row.p99_ms)}" for row in found)
    if not deadline_ms:
        return f"{name} p50 / p99 {said}"
    shares = ", ".join(f"{row.contender} {_share(row)}" for row in found)
    return f"{name} p50 / p99 {said}, within {deadline_ms:g} ms {shares}"


def _tool(row: Row) -> str:
    return f"{row.stage} says of {row.contender}'s {row.endpoint} {_p(row.p50_ms)} / {_p(row.p99_ms)}"


def _p(value: float | None) -> str:
    return "-" if value is None else duration(value * 1e6)


def _share(row: Row) -> str:
    if row.within_deadline_frac is None:
        return "-"
    low, high = (row.within_deadline_low_frac or 0) * 100, (row.within_deadline_high_frac or 0) * 100
    return f"{row.within_deadline_frac * 100:.1f} % [{low:.1f}-{high:.1f}]"
