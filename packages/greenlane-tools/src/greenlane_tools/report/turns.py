"""Who took turns for the CPU: what each route paid for permits, and what it gained.

A route pays what its jobs waited for permits (or stood still). It gains what others waited while it computed: without
permits they would have had the core at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from greenlane_tools.reader.rows import Blame
from greenlane_tools.report.split import RouteSplit

__all__ = ["RouteTurns", "turns_of"]


@dataclass(frozen=True)
class RouteTurns:
    """One route."""

    route: str
    jobs: int
    #: Jobs that waited for a permit.
    waited: int
    pays_ns: int
    gains_ns: int


def turns_of(routes: Sequence[RouteSplit], blame: Iterable[Blame]) -> list[RouteTurns]:
    """One a route that waited for permits or was waited for, who pays most first."""
    gained: dict[str, int] = {}
    for row in blame:
        if row.kind == "permit":
            gained[row.culprit] = gained.get(row.culprit, 0) + row.ns
    found = []
    for split in routes:
        waits_ns = [ns for job in split.jobs if (ns := job.wait_ns.get("permit", 0)) > 0]
        if waits_ns or split.route in gained:
            turns = RouteTurns(split.route, len(split.jobs), len(waits_ns), sum(waits_ns), gained.get(split.route, 0))
            found.append(turns)
    return sorted(found, key=lambda each: -each.pays_ns)
