"""Who took turns for the CPU: what each route paid for permits, and what it gained.

A route pays the time that its jobs waited for permits or were stopped. It gains what others waited while it computed:
without permits they would have had the core at the same time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.reader.rows import Blame, Job, Turns
from greenlane_tools.report.split import RouteSplit

__all__ = ["IN_TURN", "RouteTurns", "counted_turns", "permits_in_force", "turns_of"]

#: Waits of phases that take turns.
IN_TURN: Final = ("permit", "stopped")


@dataclass(frozen=True)
class RouteTurns:
    """One route."""

    route: str
    jobs: int
    #: Jobs that waited for a permit, or were stopped while they had one.
    waited: int
    pays_ns: int
    #: Of that, stopped.
    stopped_ns: int
    gains_ns: int
    #: How its heavy phases went; None = the recording, by an earlier release, says it of no route.
    turns: Turns | None = None


def permits_in_force(jobs: Iterable[Job]) -> bool:
    """Whether jobs took turns when they were recorded."""
    return any(job.wait_ns.get("permit") for job in jobs)


def turns_of(routes: Sequence[RouteSplit], blame: Iterable[Blame], turns: Sequence[Turns]) -> list[RouteTurns]:
    """One a route that took turns, waited for them or was waited for, who pays most first."""
    none = Turns("", 0, 0, 0, 0, 0, 0) if turns else None
    taken = {row.route: row for row in turns}
    gained: dict[str, int] = {}
    for row in blame:
        if row.kind in IN_TURN:
            gained[row.culprit] = gained.get(row.culprit, 0) + row.ns
    found = []
    for split in routes:
        waits_ns = [ns for job in split.jobs if (ns := sum(job.wait_ns.get(kind, 0) for kind in IN_TURN)) > 0]
        if waits_ns or split.route in gained or split.route in taken:
            stopped_ns = sum(job.wait_ns.get("stopped", 0) for job in split.jobs)
            paid = (len(waits_ns), sum(waits_ns), stopped_ns)
            gains_ns, counted = gained.get(split.route, 0), taken.get(split.route, none)
            found.append(RouteTurns(split.route, len(split.jobs), *paid, gains_ns, counted))
    return sorted(found, key=lambda each: -each.pays_ns)


def counted_turns(of: RouteTurns) -> dict[str, int]:
    """How its heavy phases went, by the words of `greenlane top`. Empty: the recording does not say."""
    if of.turns is None:
        return {}
    counted = of.turns._asdict()
    return {"turns": counted.pop("taken"), **{name: counted[name] for name in Turns._fields[2:]}}
