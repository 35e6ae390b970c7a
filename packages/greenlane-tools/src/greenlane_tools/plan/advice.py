"""The advice: what to set so that the goals are met at the least cost, how sure that is, and what else there is.

    advised(profile, goals) -> Advice

In turn: what was recorded of each goal, and whether that is enough to plan for it; what no set-up can change (the
requests' own work); the ways to serve, each simulated briefly with the same requests; the best few at other loads until
a goal breaks, and between what and what a measurement will be. Everything follows from the profile, the
goals and a seed: the same again gives the same.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools.page.quantities import milliseconds
from greenlane_tools.plan.band import Band, bands, full_load, surely_better, with_cliff
from greenlane_tools.plan.candidates import Room, candidates, hanging, needed_processes
from greenlane_tools.plan.goal import Goal, Seen, enough, level_said, needed, seen
from greenlane_tools.plan.options import JOBS, Candidate, CellRuns, Option, Told
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.route import Route
from greenlane_tools.plan.set_up import SetUp, present
from greenlane_tools.report.verdict import Verdict

#: A set-up that breaks below this load is at the edge already: the next dearer one is looked at.
EDGE_TIMES: Final = 1.1
#: What is served now may stay if it holds up to this load: below it a busier day is enough, and what lasts longer at
#: the same cost is better.
_ROOM_TIMES: Final = 1.2
#: Options that are looked at closely.
_FINALISTS: Final = 5
#: Loads at which two options break are the same within this; then the smaller change counts.
_SAME_FRAC: Final = 0.05
#: A sample says that no set-up can do it when this many times too many are late, and at least this many.
_FAR_TIMES: Final = 2.0
_FEW: Final = 5
_STOPS: Final = "As it is served now, all orders stop for a while when the upstream that is called most hangs."


class AdviceVerdict(enum.Enum):
    """The result."""

    CHANGE = "change"
    #: What was found best may be no better than what is there.
    UNSURE = "unsure"
    #: The present set-up meets the goals, with room, and nothing that costs less does.
    NOTHING = "nothing"
    #: Nothing that was looked at meets the goals; the nearest is shown.
    OUT_OF_REACH = "out of reach"
    #: The requests' own work is already beyond a goal.
    IMPOSSIBLE = "impossible"
    #: Too few requests were seen.
    TOO_FEW = "too few"
    #: The recording missed goals that the simulation of the same set-up meets, or met what that misses.
    UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class Advice:
    """All of it.

    Args:
        goals: that are wanted, as they were given; `judged` are those that enough requests were seen for.
        seen: what was recorded of them.
        notes: what of the profile was taken otherwise than it stands, each a sentence.
        doubts: where recording and simulation of the present set-up differ, likewise.
        present: as it is served now, or a what-if has it; None where nothing was simulated.
        recommended: None = nothing to recommend; with NOTHING it is the present one.
        options: all that were simulated, by cost, then by tail; the closely looked-at ones with their curves.
        bands: of present and recommended, by name, then by the goal's route and limit.
        bounds: what no set-up can change, each a sentence.
        recorded: of a recording, its verdict; the words begin with it.
        what_if: `profile` or `present` are not what there is, but changed by a what-if; for the words.
    """

    profile: Profile
    goals: tuple[Goal, ...]
    verdict: AdviceVerdict
    judged: tuple[Goal, ...] = ()
    seen: tuple[Seen, ...] = ()
    notes: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    present: Option | None = None
    recommended: Option | None = None
    options: tuple[Option, ...] = ()
    bands: Mapping[str, Mapping[tuple[str, float], Band]] = field(default_factory=dict)
    bounds: tuple[str, ...] = ()
    jobs: int = 0
    seed: int = 1
    recorded: Verdict | None = None
    what_if: bool = False

    def band(self, option: Option, goal: Goal) -> Band | None:
        """Of one goal of present or recommended; of the others none was drawn."""
        return self.bands.get(option.candidate.name, {}).get((goal.route, goal.limit_ms))


def advised(
    profile: Profile,
    goals: Sequence[Goal],
    *,
    base: SetUp | None = None,
    cores: int = 0,
    jobs: int = JOBS,
    seed: int = 1,
    told: Told | None = None,
) -> Advice:
    """The advice for a profile.

    Args:
        goals: all of them are to be met.
        base: how it is served now; None = as the profile says. What-ifs give their own.
        cores: that may be used; 0 = the profile's.
        jobs: requests of each cell that is shown; the others have fewer.
        told: gets the progress; may be None.

    Raises: PlanError; KeyboardInterrupt within 0.1 s of Ctrl-C.

    Cost: some 30 million simulated requests with the default `jobs`: a minute on two cores.
    """
    if not goals:
        raise PlanError("plan", name="--goal", value=[], rule="one goal at least", hint='--goal "bikes p99.9 <= 500ms"')
    notes = []
    known = tuple(filter(None, (seen(goal, profile) for goal in goals)))
    judged = tuple(goal for goal in goals if enough(goal, profile))
    whole = Advice(profile, tuple(goals), AdviceVerdict.TOO_FEW, judged, known, seed=seed)
    if few := [goal for goal in goals if goal not in judged]:
        notes.append(needed(few, profile))
    base = base or present(profile)
    if not judged:
        return replace(whole, notes=tuple(notes))
    if beyond := _beyond(profile, judged):
        return replace(whole, verdict=AdviceVerdict.IMPOSSIBLE, notes=tuple(notes), bounds=tuple(beyond))
    usable = cores or profile.cores
    room = Room(usable, max(usable, base.processes))
    tried = candidates(profile, judged, base, room)
    if needed_processes(profile) > room.cores:
        notes.append(
            f"The work needs {needed_processes(profile)} cores at least, {room.cores} may be used: at this load "
            "nothing serves all of it (--cores N looks further)."
        )
    runs = CellRuns(profile, judged, jobs=jobs, seed=seed, told=told)
    return _Choice(runs, replace(whole, notes=tuple(notes))).made(tried)


class _Choice:
    def __init__(self, runs: CellRuns, asked: Advice) -> None:
        self._runs, self._asked = runs, asked

    def made(self, tried: Sequence[Candidate]) -> Advice:
        found = self._runs.at(tried, f"trying {len(tried)} ways to serve it", quick=True)
        options = [Option(candidate, at) for candidate, at in zip(tried, found, strict=True)]
        close = with_cliff(self._runs, _unique([options[0], *self._finalists(options)]))
        safe = self._going_on(close)
        verdict, best = _chosen(close, safe)
        there = close[0]
        by_name = {option.candidate.name: option for option in [*options, *close]}
        notes = self._asked.notes if there.candidate.name in safe else (*self._asked.notes, _STOPS)
        profile, goals, seed = self._runs.profile, self._runs.goals, self._runs.seed
        advice = replace(
            self._asked, verdict=verdict, notes=notes, present=there, recommended=best,
            options=tuple(sorted(by_name.values(), key=_by_cost)),
            bands={each.candidate.name: bands(profile, each.set_up, goals, seed=seed) for each in (there, best)},
            jobs=self._runs.size(quick=False),
        )  # fmt: skip
        return _held_against(_said_surely(advice, there, best), there)

    def _finalists(self, options: Sequence[Option]) -> list[Option]:
        """Those that reach the goals at the least cost: the smallest change, what lasts longest by theory, the shortest
        tails; and of the next dearer what lasts longest. If none does, the shortest tails of all."""
        reached = [option for option in options if option.at.reached]
        if not reached:
            return sorted(options, key=lambda each: each.at.tail)[:_FINALISTS]
        least = min(option.cost for option in reached)
        cheapest = sorted((each for each in reached if each.cost == least), key=lambda each: each.at.tail)
        smallest = min(cheapest, key=lambda each: (each.candidate.effort, each.at.tail))
        # Some that hold an upstream back: whether they are needed shows when one hangs.
        held = [each for each in cheapest if each.set_up.upstream_limits][:2]
        more = min((each.cost for each in reached if each.cost > least), default=least)
        dearer = [each for each in reached if each.cost == more > least]
        beyond = [min(dearer, key=self._lasting)] if dearer else []
        return [*_unique([smallest, min(cheapest, key=self._lasting), *held, *cheapest])[: _FINALISTS - 1], *beyond]

    def _lasting(self, option: Option) -> tuple[float, float]:
        """What is full last comes first, then the shortest tail."""
        return -full_load(self._runs.profile, option.set_up), option.at.tail

    def _going_on(self, close: Sequence[Option]) -> set[str]:
        """Names of the options with which the others' orders go on when the busiest upstream hangs, where calls hold
        slots; of all if that is none."""
        everyone = {option.candidate.name for option in close}
        hung = hanging(self._runs.profile)
        if hung is None or close[0].set_up.host != "celery":
            return everyone
        profile, spared = hung
        found = self._runs.cells([(option.set_up, profile, 1.0) for option in close], "letting an upstream hang")
        holds = {
            option.candidate.name for option, run in zip(close, found, strict=True) if run.only(spared).goals_reached
        }
        return holds or everyone


def _chosen(close: Sequence[Option], safe: Collection[str]) -> tuple[AdviceVerdict, Option]:
    now = close[0]
    reached = [option for option in close if option.at.reached]
    # A goal that is reached comes before what happens when an upstream hangs.
    reached = [option for option in reached if option.candidate.name in safe] or reached
    if not reached:
        return AdviceVerdict.OUT_OF_REACH, min(close, key=lambda each: each.at.tail)
    lasting = [option for option in reached if _holds(option) >= EDGE_TIMES] or reached
    least = min(option.cost for option in lasting)
    cheapest = [option for option in lasting if option.cost == least]
    if now in cheapest and _holds(now) >= _ROOM_TIMES:
        return AdviceVerdict.NOTHING, now
    most = max(_holds(option) for option in cheapest)
    alike = [option for option in cheapest if _holds(option) >= most * (1 - _SAME_FRAC)]
    best = min(alike, key=lambda each: (each.candidate.effort, each.at.tail))
    return (AdviceVerdict.NOTHING if best is now else AdviceVerdict.CHANGE), best


def _beyond(profile: Profile, goals: Sequence[Goal]) -> list[str]:
    """Goals that the requests' own work misses, with nobody to wait for."""
    said = []
    for goal in goals:
        route = profile.route(goal.route)
        own, beyond = _own(route, goal.limit_ms)
        if 1 - own > _FAR_TIMES * (1 - goal.share) and beyond >= min(_FEW, len(route.sequences)):
            mean = route.demand
            few = f"only {100 * own:.2f} %" if own > 0 else "none"
            said.append(
                f"{goal.said()}: {few} of its requests would take so little without any wait (mean "
                f"{milliseconds(mean.cpu_ms + mean.free_ms)} of CPU, "
                f"{milliseconds(mean.io_ms + mean.held_ms)} of I/O): no "
                "set-up changes that, its code or its upstreams must."
            )
    return said


def _own(route: Route, limit_ms: float) -> tuple[float, int]:
    """Of its requests those that their own steps alone let be in time; and how many of the sample are not."""
    late = [each for each in route.sequences if math.fsum(step.ms for step in each.steps) > limit_ms]
    whole = math.fsum(each.weight for each in route.sequences)
    return 1 - math.fsum(each.weight for each in late) / whole if whole else 1.0, len(late)


def _unique(options: Sequence[Option]) -> list[Option]:
    found: dict[str, Option] = {}
    for option in options:
        found.setdefault(option.candidate.name, option)
    return list(found.values())


def _by_cost(option: Option) -> tuple[float, float]:
    return option.cost, option.at.tail


def _said_surely(advice: Advice, there: Option, best: Option) -> Advice:
    """The advice, which recommends a change only where it is better beyond the model's error, or saves cores and meets
    the goals with the whole of their bands."""
    if best.candidate == there.candidate:
        return advice
    new, old = (advice.bands[each.candidate.name].values() for each in (best, there))
    saves = there.at.reached and best.cost < there.cost
    if surely_better(new, old) or (saves and all(each.high_ms <= each.goal.limit_ms for each in new)):
        return advice
    verdict = AdviceVerdict.UNSURE if advice.verdict is AdviceVerdict.CHANGE else advice.verdict
    return replace(advice, verdict=verdict, recommended=best if verdict is AdviceVerdict.UNSURE else there)


def _held_against(advice: Advice, there: Option) -> Advice:
    """The advice, given what was recorded of the present set-up: a model that does not give that is not trusted."""
    known = [(each, band) for each in advice.seen if (band := advice.band(there, each.goal)) is not None]
    slower = any(each.surely_missed and each.within.high < band.low_within for each, band in known)
    faster = [each for each, band in known if each.surely_met and each.within.low > band.high_within]
    if (slower and there.at.reached) or (faster and not there.at.reached and len(faster) == len(known)):
        return replace(advice, verdict=AdviceVerdict.UNEXPLAINED, recommended=there)
    doubts = [
        f"Of what was recorded the simulation gives another {level_said(each.goal.share)}, {milliseconds(band.low_ms)} "
        f"to {milliseconds(band.high_ms)}: predictions for {each.goal.route} may be as far off."
        for each, band in known
        if each.low_ms > band.high_ms or (each.high_ms or math.inf) < band.low_ms
    ]
    return replace(advice, doubts=tuple(doubts))


def _holds(option: Option) -> float:
    return option.holds or 0.0
