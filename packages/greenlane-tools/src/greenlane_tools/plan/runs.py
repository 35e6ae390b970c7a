"""Simulated cells of options, several at a time, with what is done of the whole told as it goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.option import Candidate, Predicted, cell_of, predicted
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.set_up import SetUp
from greenlane_tools.plan.simulation import simulate_cells

__all__ = ["JOBS", "Runs", "Told"]

#: Of a cell that is shown; p99 at 0.9 of the capacity is good to about 5 % then.
JOBS: Final = 1_000_000
_MOST_JOBS: Final = 8_000_000
#: Of a cell that only has to be told from others: they meet the same requests, so what differs is the set-up.
_QUICK: Final = 8
_LEAST_QUICK: Final = 20_000
#: Requests beyond a goal's percentile that a cell should have.
_BEYOND: Final = 30

#: Part that is done of a stage, and the stage: "trying 24 ways".
Told = Callable[[float, str], None]


@dataclass(frozen=True)
class Runs:
    """Cells of one profile and its goals.

    Args:
        jobs: requests of a cell that is shown.
        seed: of all cells, so that all meet the same requests.
        told: None = nobody listens.
    """

    profile: Profile
    goals: Sequence[Goal]
    jobs: int = JOBS
    seed: int = 1
    told: Told | None = None

    def at(self, candidates: Sequence[Candidate], said: str, *, quick: bool) -> list[Predicted]:
        """Each at the load of the profile."""
        return self.cells([(each.set_up, self.profile, 1.0) for each in candidates], said, quick=quick)

    def cells(self, cells: Sequence[tuple[SetUp, Profile, float]], said: str, *, quick: bool = True) -> list[Predicted]:
        """Each of (set-up, profile, load); of runs at length those at another load are half as long.

        Raises: PlanError for what cannot be simulated; KeyboardInterrupt within 0.1 s of Ctrl-C.
        """
        jobs = self.size(quick=quick)
        found = simulate_cells(
            [
                cell_of(
                    profile,
                    set_up,
                    self.goals,
                    jobs=jobs if quick or load == 1 else jobs // 2,
                    seed=self.seed,
                    load=load,
                )
                for set_up, profile, load in cells
            ],
            progress=lambda part: self._tell(part, said),
        )
        return [
            predicted(run, profile, set_up, self.goals, load)
            for run, (set_up, profile, load) in zip(found, cells, strict=True)
        ]

    def size(self, *, quick: bool) -> int:
        """Requests of a cell: enough of each goal's route beyond its percentile."""
        whole = math.fsum(route.rate_per_s for route in self.profile.routes)
        wanted = max(
            (
                _BEYOND / (1 - goal.share) / max(1e-6, self.profile.route(goal.route).rate_per_s / whole)
                for goal in self.goals
            ),
            default=0.0,
        )
        jobs = max(self.jobs, min(math.ceil(wanted), 2 * self.jobs))
        return min(_MOST_JOBS, max(min(_LEAST_QUICK, jobs), jobs // _QUICK) if quick else jobs)

    def _tell(self, part: float, said: str) -> None:
        if self.told is not None:
            self.told(part, said)
