"""What a what-if does by itself: the present set-up before and after it, by route."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.page.quantities import milliseconds
from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.option import Predicted, cell_of, predicted
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.runs import Told
from greenlane_tools.plan.set_up import SetUp
from greenlane_tools.plan.simulation import SimulatedRoute, simulate_cells

__all__ = ["COLUMNS", "Effect", "effects", "row_of", "table_of"]

#: Of the table for people.
COLUMNS: Final = ("route", "p50 now", "p50 then", "p99 now", "p99 then")


@dataclass(frozen=True, slots=True)
class Effect:
    """One route. None = no request of it was served, or the set-up never settles."""

    route: str
    before_p50_ms: float | None
    after_p50_ms: float | None
    before_p99_ms: float | None
    after_p99_ms: float | None


def effects(
    before: tuple[Profile, SetUp],
    after: tuple[Profile, SetUp],
    goals: Sequence[Goal],
    *,
    jobs: int,
    seed: int,
    told: Told | None = None,
) -> list[Effect]:
    """Each route of the profile, by its rate."""
    cells = [cell_of(profile, set_up, goals, jobs=jobs, seed=seed) for profile, set_up in (before, after)]
    found = simulate_cells(cells, progress=None if told is None else lambda part: told(part, "now, and what if"))
    was, then = (
        predicted(run, profile, set_up, goals, 1.0)
        for run, (profile, set_up) in zip(found, (before, after), strict=True)
    )
    return [
        Effect(
            route.route, _ms(was, route.route, 0.5), _ms(then, route.route, 0.5), _ms(was, route.route, 0.99),
            _ms(then, route.route, 0.99),
        )
        for route in before[0].routes
    ]  # fmt: skip


def row_of(one: Effect) -> dict[str, object]:
    """For programs."""
    return {
        "view": "what_if",
        "endpoint": one.route,
        "before_p50_ms": one.before_p50_ms,
        "p50_ms": one.after_p50_ms,
        "before_p99_ms": one.before_p99_ms,
        "p99_ms": one.after_p99_ms,
    }


def table_of(found: Sequence[Effect]) -> list[dict[str, object]]:
    """For people."""
    return [
        {
            "route": one.route,
            "p50 now": _said(one.before_p50_ms),
            "p50 then": _said(one.after_p50_ms),
            "p99 now": _said(one.before_p99_ms),
            "p99 then": _said(one.after_p99_ms),
        }
        for one in found
    ]


def _ms(run: Predicted, name: str, share: float) -> float | None:
    route: SimulatedRoute = run.run.route(name)
    return route.percentile_ms(share) if run.settled and route.done else None


def _said(ms: float | None) -> str:
    return "without end" if ms is None else milliseconds(ms)
