"""How far the cliff is: short runs, runs at length, and which of them count."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from tests.plan.models import pricing

from greenlane_tools.plan.cliff import at_length, full_load, guessed, unsure, with_curves
from greenlane_tools.plan.options import Candidate, CellRuns, Option, Predicted
from greenlane_tools.plan.profile import Profile
from greenlane_tools.plan.set_up import SetUp, SetUpLane

#: One process at 0.86 of its CPU: full at 1.165 times the load.
ONE = SetUp("gevent", 1, 2)


@dataclass(frozen=True)
class _Run(Predicted):
    """Whose goals are reached or not, and nothing else."""

    holds: bool = True

    @property
    def reached(self) -> bool:
        return self.holds

    @property
    def tail(self) -> float:
        return 0.8


@dataclass(frozen=True)
class _Cliffs(CellRuns):
    """Short runs and runs at length hold below loads of their own."""

    short: float = math.inf
    long: float = math.inf

    def cells(self, cells: Sequence[tuple[SetUp, Profile, float]], said: str, *, quick: bool = True) -> list[Predicted]:
        most = self.short if quick else self.long
        return [_Run(load, None, (), load < most) for _, _, load in cells]  # type: ignore[arg-type]


def _looked_at(short: float, long: float) -> tuple[_Cliffs, Option]:
    runs = _Cliffs(pricing(), (), short=short, long=long)
    (at,) = runs.cells([(ONE, runs.profile, 1.0)], "")
    (option,) = with_curves(runs, [Option(Candidate("one", ONE, "one", 0, True), at)])
    return runs, option


def _longer(runs: CellRuns, option: Option, *loads: float) -> Option:
    return at_length(runs, [option], {"one": loads}, "")[0]


def test_a_short_run_says_about_where() -> None:
    _, option = _looked_at(1.075, 1.075)
    assert option.holds is not None and option.breaks is not None
    assert option.holds < 1.075 <= option.breaks < option.holds + 0.02
    assert not option.sure


@pytest.mark.parametrize(("short", "long"), [(1.08, 0.97), (0.9, 1.06)])
def test_at_the_profiles_load_the_run_at_length_decides(short: float, long: float) -> None:
    runs, option = _looked_at(short, long)
    longer = _longer(runs, option, 1.0)
    assert longer.holds is not None and longer.breaks is not None
    if long < 1:
        assert longer.holds < 1 and longer.breaks == 1
    else:
        assert longer.holds >= 1 and longer.breaks > 1


@pytest.mark.parametrize("long", [0.99, 1.005, 1.03, 1.055, 1.065, 1.075, 1.085, 1.1, 1.15])
@pytest.mark.parametrize("short", [1.02, 1.075, 1.12])
def test_runs_at_length_never_contradict_what_they_bear_out(short: float, long: float) -> None:
    runs, option = _looked_at(short, long)
    option = _longer(runs, option, 1.0)
    rounds = 0
    while (loads := unsure(runs, option)) and rounds < 6:
        assert len(loads) <= 2
        option = _longer(runs, option, *loads)
        rounds += 1
    assert option.holds is not None and option.breaks is not None
    assert option.holds < long <= option.breaks
    if long > 1:
        assert option.sure and option.breaks <= 1.05 * option.holds / 0.95


def test_what_holds_until_it_is_full_breaks_there() -> None:
    runs, option = _looked_at(math.inf, math.inf)
    full = full_load(runs.profile, ONE)
    assert option.breaks == full and option.holds is not None and option.holds < full
    assert full in unsure(runs, option)


def test_a_hard_lane_is_full_when_the_first_of_its_sides_is() -> None:
    two = replace(ONE, processes=2)
    alone = SetUpLane("apart", ("GET /bikes",), "hard", processes=1)
    # Quotes need 48 x 16 ms of CPU a second, all on the one process that is left to them.
    assert full_load(pricing(), replace(two, lanes=(alone,))) == pytest.approx(1 / 0.768, rel=0.01)
    assert full_load(pricing(), two) == pytest.approx(2 / 0.858, rel=0.01)


def test_where_a_goal_breaks_is_guessed_by_how_far_the_waits_may_grow() -> None:
    profile = pricing()

    @dataclass(frozen=True)
    class Tail(_Run):
        late: float = 0.0

        @property
        def tail(self) -> float:
            return self.late

    def of(tail: float, processes: int) -> float:
        at = Tail(1.0, None, (), True, tail)  # type: ignore[arg-type]
        return guessed(profile, Option(Candidate("", replace(ONE, processes=processes), "", 0, True), at, 1.0), 0.75)

    # Who waits for nobody lasts until it is full, who is at its limit does not last at all.
    assert of(0.75, 2) == full_load(profile, replace(ONE, processes=2))
    assert of(1.0, 2) == pytest.approx(1.0)
    assert 1 < of(0.95, 2) < of(0.8, 2) < of(0.75, 2)
