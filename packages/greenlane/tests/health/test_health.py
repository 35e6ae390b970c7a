"""`greenlane.health` names the right trouble, under real servers, with each trouble made on purpose."""

from __future__ import annotations

import re

import pytest
from tests.health.made import CASES, Unable, ask_until, in_trouble, measure

GATE = ("loop", "upstream")
MARKED = [pytest.param(name, marks=pytest.mark.gate if name in GATE else ()) for name in CASES]


@pytest.mark.slow
@pytest.mark.system
@pytest.mark.parametrize("name", MARKED)
def test_the_trouble_is_named(name: str) -> None:
    case = CASES[name]
    try:
        with in_trouble(case) as (health, _):
            ask_until(health, "/ready", lambda status, reason: status == 503 and bool(re.search(case.reason, reason)))
    except Unable as error:
        pytest.skip(str(error))


@pytest.mark.measured
@pytest.mark.soak
@pytest.mark.parametrize("name", CASES)
def test_it_answers_in_time_meanwhile(name: str) -> None:
    _, ours, _ = measure(name)
    # Where there is no core, nobody can answer.
    assert ours.at(0.99) <= (50 if not CASES[name].quota else 150)
