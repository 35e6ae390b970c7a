"""The price of being wrong: the same set-ups where the profile errs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from greenlane_tools.page.quantities import milliseconds
from greenlane_tools.plan.candidates import busiest, hang_ms, upstream_rates
from greenlane_tools.plan.goal import Goal
from greenlane_tools.plan.options import CellRuns, GoalStanding, Option, Predicted, Told, cell_of, predicted
from greenlane_tools.plan.profile import Profile, Route
from greenlane_tools.plan.route import Sequence as Sampled
from greenlane_tools.plan.route import Step
from greenlane_tools.plan.set_up import SetUp
from greenlane_tools.plan.simulation import SimulatedRoute, simulate_cells
from greenlane_tools.plan.what_if import applied, asked

__all__ = [
    "EFFECT_COLUMNS",
    "HANG",
    "WhatIfEffect",
    "Wrong",
    "effects",
    "hanging",
    "effect_row",
    "effects_table",
    "wrongs",
]

#: The name of the way in which an upstream hangs. Its own orders pile up whatever is done: the others' are judged.
HANG: Final = "hang"
_CPU: Final = 1.2
_RATE: Final = 1.25
_IO: Final = 1.5
#: Counts of a second vary so many times as much as at random: a busy hour's bursts, or clients that start together.
_BURSTS: Final = 4.0
_WAITS: Final = ("io", "held")
#: Of the table for people.
EFFECT_COLUMNS: Final = ("route", "p50 now", "p50 then", "p99 now", "p99 then")


@dataclass(frozen=True, slots=True)
class Wrong:
    """One way to be wrong, and what then comes of each option.

    Args:
        name: cpu, rate, io, hang or bursts.
        said: "requests need 20 % more CPU".
        options: what was predicted, by the option's name; where an upstream hangs, with the others' goals alone.
    """

    name: str
    said: str
    options: dict[str, Predicted]

    def settles(self, option: str) -> bool:
        """Whether the option serves what comes, or at least those who are judged."""
        return self.name == HANG or self.options[option].settled

    def reached(self, option: str) -> bool:
        """Whether what is judged is as it is wanted."""
        return self.settles(option) and self.options[option].goals_reached

    def standing(self, option: str) -> GoalStanding:
        """The same with how sure it is."""
        return self.options[option].goals_standing if self.settles(option) else GoalStanding.MISSED


@dataclass(frozen=True, slots=True)
class _Way:
    name: str
    said: str
    changed: Callable[[Profile], Profile]
    load: float = 1.0
    #: Whose goals are judged; None = all.
    routes: tuple[str, ...] | None = None


def wrongs(runs: CellRuns, options: Sequence[Option]) -> tuple[Wrong, ...]:
    """Each way, for each option."""
    ways = _ways(runs.profile, {goal.route for goal in runs.goals})
    cells = [(option.set_up, way.changed(runs.profile), way.load) for way in ways for option in options]
    found = iter(runs.cells(cells, "looking what being wrong costs"))
    return tuple(
        Wrong(way.name, way.said, {option.candidate.name: _judged(next(found), way) for option in options})
        for way in ways
    )


def _judged(run: Predicted, way: _Way) -> Predicted:
    return run if way.routes is None else run.only(way.routes)


def hanging(profile: Profile) -> tuple[Profile, tuple[str, ...]] | None:
    """The profile with its busiest upstream hanging until calls give up, and the routes that do not call it; None =
    there is nobody to spare."""
    rates = upstream_rates(profile)
    if len(rates) < 2:
        return None
    name = busiest(rates)
    spared = tuple(route.route for route in profile.routes if not _calls(route, name))
    hung = (replace(route, mean=None, sequences=_hung(route, name, hang_ms(profile))) for route in profile.routes)
    return (replace(profile, routes=tuple(hung)), spared) if spared else None


def _calls(route: Route, name: str) -> bool:
    """Whether any of its requests does; of a task that was told apart by upstreams only some kinds do."""
    return any(
        step.upstream >= 0 and route.upstreams[step.upstream] == name for each in route.sequences for step in each.steps
    )


def _hung(route: Route, name: str, ms: float) -> tuple[Sampled, ...]:
    def longer(step: Step) -> Step:
        called = route.upstreams[step.upstream] if step.upstream >= 0 else ""
        return replace(step, ms=ms) if called == name and step.kind in _WAITS else step

    return tuple(replace(each, steps=tuple(map(longer, each.steps))) for each in route.sequences)


def _ways(profile: Profile, wanted: set[str]) -> list[_Way]:
    ways = [
        _Way("cpu", f"requests need {100 * (_CPU - 1):.0f} % more CPU than was seen", _cpu),
        _Way("rate", f"{100 * (_RATE - 1):.0f} % more requests come", _same, load=_RATE),
    ]
    if any(route.demand.io_ms for route in profile.routes):
        ways.append(_Way("io", f"upstreams take {100 * (_IO - 1):.0f} % longer", _io))
    hung = hanging(profile)
    if hung is not None and profile.host == "celery" and not wanted.isdisjoint(hung[1]):
        stuck, spared = hung
        name = busiest(upstream_rates(profile))
        said = f"{name} hangs, and its calls give up after {hang_ms(profile) / 1000:.0f} s"
        ways.append(_Way(HANG, said, lambda _: stuck, routes=spared))
    if (profile.arrivals.dispersion or 1.0) < _BURSTS:
        said = f"requests come in bursts ({_BURSTS:g} times a random stream's variance)"
        ways.append(_Way("bursts", said, _bursty))
    return ways


def _same(profile: Profile) -> Profile:
    return profile


def _cpu(profile: Profile) -> Profile:
    return applied(asked(profile, cpu=[f"{_CPU}x"]), profile, {})[0]


def _io(profile: Profile) -> Profile:
    return replace(profile, routes=tuple(_longer(route) for route in profile.routes))


def _longer(route: Route) -> Route:
    """With longer waits."""
    sequences = tuple(
        replace(
            each, steps=tuple(replace(step, ms=step.ms * _IO) if step.kind in _WAITS else step for step in each.steps)
        )
        for each in route.sequences
    )
    mean = route.mean
    if mean is not None:
        mean = replace(mean, io_ms=mean.io_ms * _IO, held_ms=mean.held_ms * _IO)
    return replace(route, sequences=sequences, mean=mean)


def _bursty(profile: Profile) -> Profile:
    return replace(profile, arrivals=replace(profile.arrivals, dispersion=_BURSTS))


@dataclass(frozen=True, slots=True)
class WhatIfEffect:
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
) -> list[WhatIfEffect]:
    """Each route of the profile, by its rate."""
    cells = [cell_of(profile, set_up, goals, jobs=jobs, seed=seed) for profile, set_up in (before, after)]
    found = simulate_cells(cells, progress=None if told is None else lambda part: told(part, "now, and what if"))
    was, then = (
        predicted(run, profile, set_up, goals, 1.0)
        for run, (profile, set_up) in zip(found, (before, after), strict=True)
    )
    return [
        WhatIfEffect(
            route.route, _ms(was, route.route, 0.5), _ms(then, route.route, 0.5), _ms(was, route.route, 0.99),
            _ms(then, route.route, 0.99),
        )
        for route in before[0].routes
    ]  # fmt: skip


def effect_row(one: WhatIfEffect) -> dict[str, object]:
    """For programs."""
    return {
        "view": "what_if",
        "endpoint": one.route,
        "before_p50_ms": one.before_p50_ms,
        "p50_ms": one.after_p50_ms,
        "before_p99_ms": one.before_p99_ms,
        "p99_ms": one.after_p99_ms,
    }


def effects_table(found: Sequence[WhatIfEffect]) -> list[dict[str, object]]:
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
