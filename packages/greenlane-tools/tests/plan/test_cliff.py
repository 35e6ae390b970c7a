"""How far the cliff is: where a goal breaks, and where processes are full."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from tests.plan.models import pricing

from greenlane_tools.plan.cliff import full_load, with_cliff
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


@dataclass(frozen=True)
class _Cliffs(CellRuns):
    """Runs hold below a load."""

    most: float = math.inf

    def cells(self, cells: Sequence[tuple[SetUp, Profile, float]], said: str, *, quick: bool = True) -> list[Predicted]:
        assert not quick
        return [_Run(load, None, (), load < self.most) for _, _, load in cells]  # type: ignore[arg-type]


def _looked_at(most: float) -> Option:
    runs = _Cliffs(pricing(), (), most=most)
    short = _Run(1.0, None, ())  # type: ignore[arg-type]
    (option,) = with_cliff(runs, [Option(Candidate("one", ONE, "one", 0, True), short)])
    assert option.at.reached == (most > 1)
    assert [run.load for run in option.curve] == sorted(run.load for run in option.curve)
    return option


@pytest.mark.parametrize("most", [0.3, 0.97, 1.005, 1.03, 1.065, 1.085, 1.1, 1.15])
def test_where_a_goal_breaks_is_known_to_some_per_cent(most: float) -> None:
    option = _looked_at(most)
    assert option.holds is not None and option.breaks is not None
    assert option.holds < most <= option.breaks < 1.04 * option.holds + 0.01


def test_what_holds_until_it_is_full_breaks_there_and_what_never_holds_at_the_lowest_load() -> None:
    option = _looked_at(math.inf)
    assert (
        option.breaks == full_load(pricing(), ONE) and option.holds is not None and 1.1 < option.holds < option.breaks
    )
    never = _looked_at(0.0)
    assert never.holds == 0 and never.breaks == never.curve[0].load < 0.1


def test_a_hard_lane_is_full_when_the_first_of_its_sides_is() -> None:
    two = replace(ONE, processes=2)
    alone = SetUpLane("apart", ("GET /bikes",), "hard", processes=1)
    # Quotes need 48 x 16 ms of CPU a second, all on the one process that is left to them.
    assert full_load(pricing(), replace(two, lanes=(alone,))) == pytest.approx(1 / 0.768, rel=0.01)
    assert full_load(pricing(), two) == pytest.approx(2 / 0.858, rel=0.01)
