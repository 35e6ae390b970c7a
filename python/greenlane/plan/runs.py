"""Simulated cells of options, several at a time, with what is done of the whole told as it goes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from greenlane.plan.goal import Goal
from greenlane.plan.option import Candidate, Option, Predicted, cell_of, predicted
from greenlane.plan.profile import LOOPS, Profile
from greenlane.plan.set_up import SetUp
from greenlane.plan.simulation import simulate_cells

__all__ = ["JOBS", "Runs", "Told", "full_load"]

#: Of a cell that is shown; p99 at 0.9 of the capacity is good to about 5 % then.
JOBS: Final = 1_000_000
_MOST_JOBS: Final = 8_000_000
#: Of a cell that only has to be told from others: they meet the same requests, so what differs is the set-up.
_QUICK: Final = 8
_LEAST_QUICK: Final = 20_000
#: Requests beyond a goal's percentile that a cell should have.
_BEYOND: Final = 30
#: Of the load at which the CPU is full: where a curve is drawn.
_LOADS: Final = (0.2, 0.4, 0.6, 0.7, 0.8, 0.88, 0.94, 0.98)
_HALVES: Final = 4

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
        """Each of (set-up, profile, load).

        Raises: PlanError for what cannot be simulated; KeyboardInterrupt within 0.1 s of Ctrl-C.
        """
        jobs = self.size(quick=quick)
        found = simulate_cells(
            [
                cell_of(profile, set_up, self.goals, jobs=jobs, seed=self.seed, load=load)
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

    def with_curves(self, options: Sequence[Option]) -> list[Option]:
        """The same with what they are like at other loads, and the load at which a goal breaks."""
        cells: list[tuple[int, float]] = []
        for number, option in enumerate(options):
            full = full_load(self.profile, option.set_up)
            cells += [(number, round(part * full, 6)) for part in _LOADS if full < math.inf]
        runs = self.cells(
            [(options[number].set_up, self.profile, load) for number, load in cells], "looking for the cliff"
        )
        curves: list[list[Predicted]] = [[option.at] for option in options]
        for (number, _), run in zip(cells, runs, strict=True):
            curves[number].append(run)
        for step in range(_HALVES):
            self._halve(options, curves, step)
        return [
            replace(
                option,
                curve=tuple(sorted(curve, key=lambda each: each.load)),
                breaks=_breaks(curve, self._full(option)),
            )
            for option, curve in zip(options, curves, strict=True)
        ]

    def _halve(self, options: Sequence[Option], curves: list[list[Predicted]], step: int) -> None:
        """One more point a curve, between the last load that reaches the goals and the first that does not."""
        wanted = []
        for number, curve in enumerate(curves):
            low, high = _around(curve)
            if low and high:
                wanted.append((number, (low + high) / 2))
        said = f"looking for the cliff, step {step + 1} of {_HALVES}"
        cells = [(options[number].set_up, self.profile, load) for number, load in wanted]
        for (number, _), run in zip(wanted, self.cells(cells, said), strict=True):
            curves[number].append(run)

    def _full(self, option: Option) -> float:
        return full_load(self.profile, option.set_up)

    def _tell(self, part: float, said: str) -> None:
        if self.told is not None:
            self.told(part, said)


def full_load(profile: Profile, set_up: SetUp) -> float:
    """Times the profile's load at which its processes, or their places, are full; inf without CPU and places."""
    held = set_up.host in LOOPS
    dispatch_ms = profile.overhead_ms + set_up.costs.dispatch_us / 1000
    locked = stay = 0.0
    for route in profile.routes:
        mean, per_ms = route.demand, route.rate_per_s / 1000
        unlocked_frac = (route.unlocked_frac or 0.0) if profile.unlocks(set_up.host) else 0.0
        locked += per_ms * (mean.cpu_ms * (1 - unlocked_frac) + dispatch_ms + (mean.held_ms if held else 0.0))
        stay += per_ms * (mean.cpu_ms + mean.free_ms + mean.io_ms + mean.held_ms)
    by_cpu = set_up.processes / locked if locked else math.inf
    by_cores = set_up.cores / locked if locked and set_up.cores < set_up.processes else math.inf
    by_places = set_up.processes * set_up.limit / stay if set_up.limit and stay else math.inf
    return min(by_cpu, by_cores, by_places)


def _around(curve: Sequence[Predicted]) -> tuple[float, float]:
    """The highest load below every one that misses a goal, and the lowest that misses one; 0 = there is none."""
    missed = [each.load for each in curve if not each.reached]
    if not missed:
        return max(each.load for each in curve), 0.0
    below = [each.load for each in curve if each.reached and each.load < min(missed)]
    return max(below, default=0.0), min(missed)


def _breaks(curve: Sequence[Predicted], full: float) -> float:
    """0 = at any load that was looked at."""
    low, high = _around(curve)
    if not high:
        return max(full, low)
    return low
