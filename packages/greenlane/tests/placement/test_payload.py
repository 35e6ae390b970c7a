"""What is found out of a call before it is sent to another process, and what is warned of afterwards."""

from __future__ import annotations

import functools
import warnings
from typing import Any

import pytest
from tests.placement import habits

from greenlane.errors import PlacementWarning
from greenlane.placement import Call
from greenlane.placement.functions import PlacedFunction
from greenlane.placement.payload import Payload, weighed
from greenlane.placement.rule import Choice, Cost, bound_here
from greenlane.policy.placed import CallRule
from greenlane.settings import Settings


def test_what_a_call_weighs() -> None:
    found = Payload()
    assert weighed(habits.sorts_a_copy, ([3, 1],), {}, found) == [1, 3]
    assert (found.refused, found.in_band > 0) == ("", True)
    found = Payload()
    weighed(habits.takes_anything, (b"x" * 1_000_000,), {}, found)
    assert found.out_of_band == 1_000_000
    assert found.in_band < 1_000
    array = habits.ones(1_000_000)
    found = Payload()
    weighed(habits.writes_to_argument, (array,), {}, found)
    assert found.refused == "it changes its argument"


def test_a_weighed_function_raises_what_it_raises() -> None:
    with pytest.raises(LookupError):
        weighed(habits.raises, (1,), {}, Payload())


def test_the_object_of_a_method_and_what_a_partial_holds_are_weighed() -> None:
    for fn in (habits.Counter().remembers, functools.partial(habits.Counter.remembers, habits.Counter())):
        found = Payload()
        weighed(fn, (1,), {}, found)
        assert found.refused == "it changes its argument"
    found = Payload()
    assert weighed(habits.Counter().adds, (1,), {}, found) == 1
    assert found.refused == ""
    weighed(functools.partial(habits.takes_anything, habits.Odd()), (), {}, found)
    assert "cannot be pickled" in found.refused


def test_what_is_weighed_is_what_is_packed() -> None:
    found = Payload()
    result = {"raw": b"x" * 1_000_000}
    weighed(habits.gives, (result,), {}, found)
    assert found.out_of_band == 0
    assert found.in_band > 2_000_000 - 1_000 or "over 1 MB" in found.refused


@pytest.mark.parametrize(
    ("fn", "reason"),
    [
        (habits.Counter().counts, "it changes an attribute, count"),
        (habits.Counter(), "it changes an attribute, count"),
        (functools.partial(habits.Counter(), 1), "it changes an attribute, count"),
        (habits.takes_the_lock_inside, "it uses LOCK"),
        (habits.counts_inside, "it changes the global COUNT"),
        (habits.spools, "it uses SPOOL"),
    ],
)
def test_these_stay(fn: Any, reason: str) -> None:
    assert bound_here(fn).startswith(reason)


@pytest.mark.parametrize(
    "fn", [habits.sorts_a_copy, habits.plain, habits.ones, habits.light, habits.Counter().adds, habits.Counter, len]
)
def test_nothing_speaks_against_these(fn: Any) -> None:
    assert bound_here(fn) == ""


@pytest.mark.parametrize("action", ["always", "error"])
def test_what_was_pickled_is_warned_of_once_and_no_call_fails_for_it(action: Any) -> None:
    choice = Choice(PlacedFunction(habits.light, "process"), "process", CallRule.of(Settings()))
    call = Call(habits.light, (1,))
    call.begin()
    call.finish(1)
    call.in_band = 2_000_000
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        for _ in range(2):
            choice.ended(call, Cost(choice, "process"))
    (warning,) = caught
    assert issubclass(warning.category, PlacementWarning)
    assert f"{habits.__name__}.light: 2.0 MB of a call" in str(warning.message)
