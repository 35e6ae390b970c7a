"""One way to serve, what was predicted of it, and how it stands to the goals."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.set_up import SetUp
from greenlane_tools.plan.simulation import Simulated, SimulationCell, simulate_cells

#: Requests in progress at the end of a run, for each process, from which on it was filling up and never settled.
_FILLING: Final = 2_000
_FULL_FRAC: Final = 0.995
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to serve.

    Args:
        name: short; one of its own in a search.
        said: what it is, after "serve it with".
        effort: what somebody has to do to get there: 0 nothing, 1 flags of the same server, 2 another worker class or
            command, 3 a second deployment or a change of the code.
        stock: needs nothing of Greenlane.
    """

    name: str
    set_up: SetUp
    said: str
    effort: int
    stock: bool

    @property
    def cores(self) -> int:
        """That it can keep busy."""
        placed = self.set_up.pool if "process" in self.set_up.placement.values() else 0
        return min(self.set_up.processes + placed, self.set_up.cores)


@dataclass(frozen=True, slots=True)
class Judged:
    """A goal and what was predicted.

    Args:
        within: share of the route's requests that is answered well within the limit.
        latency_ms: at the goal's percentile.
    """

    goal: Goal
    within: float
    latency_ms: float

    @property
    def met(self) -> bool:
        """Whether the share is at least what is wanted."""
        return self.within >= self.goal.share


@dataclass(frozen=True, slots=True)
class Predicted:
    """What a simulation said of a way to serve at a load."""

    load: float
    run: Simulated
    goals: tuple[Judged, ...]

    @property
    def settled(self) -> bool:
        """Whether it serves what comes at all."""
        many = self.run.in_progress > _FILLING * len(self.run.process_cpu_frac)
        return not many and max(self.run.process_cpu_frac, default=0.0) < _FULL_FRAC

    @property
    def reached(self) -> bool:
        """Each goal's share, as it was predicted, is at least what is wanted, and all that comes is served."""
        return self.settled and self.goals_reached

    @property
    def goals_reached(self) -> bool:
        """Each goal's share is at least what is wanted, whether or not the rest is served."""
        return all(each.met for each in self.goals)

    @property
    def worst(self) -> Judged:
        """The goal that is missed most, or met by least: by its latency over its limit."""
        return max(self.goals, key=lambda each: _number(each.latency_ms) / each.goal.limit_ms)

    @property
    def tail(self) -> float:
        """The worst goal's latency, by its limit: below 1 it is met."""
        return _number(self.worst.latency_ms) / self.worst.goal.limit_ms

    def only(self, routes: Collection[str]) -> Predicted:
        """The same with the goals of these routes alone; there may be none."""
        return replace(self, goals=tuple(each for each in self.goals if each.goal.route in routes))


@dataclass(frozen=True, slots=True)
class Option:
    """A candidate with its predictions.

    Args:
        at: at the load of the profile.
        curve: runs at length at other loads, ascending, `at` among them; () = nobody looked.
        holds: the highest of these loads that reaches the goals; None = not looked for, 0 = none does, inf = any does.
        breaks: the lowest that misses a goal; None = not looked for, inf = there is none.
    """

    candidate: Candidate
    at: Predicted
    curve: tuple[Predicted, ...] = ()
    holds: float | None = None
    breaks: float | None = None

    @property
    def set_up(self) -> SetUp:
        """The candidate's."""
        return self.candidate.set_up

    @property
    def cost(self) -> int:
        """Cores: of what the least is wanted."""
        return self.candidate.cores


def cell_of(
    profile: Profile, set_up: SetUp, goals: Sequence[Goal], *, jobs: int, seed: int, load: float = 1.0
) -> SimulationCell:
    """A run: the profile as the set-up's host meets it."""
    due = _due(profile, set_up, goals)
    routes = tuple(replace(route, deadline_ms=due[route.route]) for route in profile.routes)
    threaded = [route for route, place in set_up.placement.items() if place == "thread"]
    simulated = replace(profile, routes=routes, measured={}).simulated(set_up.host, threaded=threaded)
    return SimulationCell(simulated.to_json(), set_up.to_json(), jobs=jobs, seed=seed, load=load)


def predicted(run: Simulated, profile: Profile, set_up: SetUp, goals: Sequence[Goal], load: float) -> Predicted:
    """What the run of `cell_of` says of the goals."""
    due = _due(profile, set_up, goals)
    return Predicted(load, run, tuple(_judged(run, goal, due[goal.route]) for goal in goals))


def _judged(run: Simulated, goal: Goal, due_ms: float | None) -> Judged:
    """One goal: exact where its limit was the deadline of the run, `due_ms`; else by the histogram."""
    route = run.route(goal.route)
    within = route.within_deadline_frac if due_ms == goal.limit_ms else route.within_frac(goal.limit_ms)
    return Judged(goal, 0.0 if math.isnan(within) else within, _latency_ms(run, goal))


def _latency_ms(run: Simulated, goal: Goal) -> float:
    """At the goal's percentile, of all requests: one that was refused or failed is later than any."""
    route = run.route(goal.route)
    share = goal.share * route.ended / route.done if route.done else math.inf
    return route.percentile_ms(share) if share <= 1 else math.inf


def _due(profile: Profile, set_up: SetUp, goals: Sequence[Goal]) -> Mapping[str, float | None]:
    """Deadline by route: the goal's limit, of several the tightest. Who sheds knows only what requests bring."""
    found = {route.route: route.deadline_ms for route in profile.routes}
    if set_up.shed:
        return found
    for goal in sorted(goals, key=lambda each: -each.limit_ms):
        found[goal.route] = goal.limit_ms
    return found


def _number(ms: float) -> float:
    return ms if not math.isnan(ms) else math.inf


@dataclass(frozen=True)
class CellRuns:
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
        jobs, seed = self.size(quick=quick), self.seed
        found = simulate_cells(
            [
                cell_of(
                    profile, set_up, self.goals, jobs=jobs if quick or load == 1 else jobs // 2, seed=seed, load=load
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
