"""What is said of a placed function: warnings of what never pays, and reasons in words."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from tests.placement import habits

from greenlane.errors import PlacementWarning
from greenlane.placement import remarks
from greenlane.placement.choice import Choice
from greenlane.placement.crossing import Crossing, inspected
from greenlane.placement.functions import PlacedFunction
from greenlane.placement.source import stays
from greenlane.placement.words import reason
from greenlane.policy.placed import ChoiceRule
from greenlane.settings import Settings

MS = 1_000_000
model: Any = type("CatBoost", (), {"__module__": "catboost.core", "predict": lambda self, rows, **_: len(rows)})()


def predicts_lists(rows: list[Any]) -> Any:
    features = [list(row) for row in rows]
    return model.predict(features, thread_count=1)


def predicts_everywhere(matrix: Any) -> Any:
    return model.predict(matrix, thread_count=-1)


def predicts(matrix: Any) -> Any:
    return model.predict(matrix, thread_count=1)


def choice(fn: Callable[..., Any], pin: str = "auto") -> Choice:
    return Choice(PlacedFunction(fn, pin), pin, ChoiceRule.of(Settings()))


def said(about: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        about()
    assert all(issubclass(one.category, PlacementWarning) for one in caught)
    return [str(one.message) for one in caught]


@pytest.mark.parametrize(
    ("fn", "what", "remedy"),
    [
        (predicts_lists, "gives CatBoost a list", 'dtype="float32", order="F"'),
        (predicts_everywhere, "thread_count=-1", "write thread_count=1"),
    ],
)
def test_the_source_is_warned_of_once_with_its_remedy(fn: Callable[..., Any], what: str, remedy: str) -> None:
    known = choice(fn)
    (text,) = said(lambda: remarks.warn_on_first_call(known, "thread"))
    assert text.startswith(f"{__name__}.{fn.__name__}: ")
    assert what in text
    assert remedy in text
    assert said(lambda: remarks.warn_on_first_call(known, "thread")) == []


@pytest.mark.parametrize("fn", [predicts, habits.plain, len, habits.Odd])
def test_what_is_well_is_not_warned_of(fn: Callable[..., Any]) -> None:
    assert said(lambda: remarks.warn_on_first_call(choice(fn), "thread")) == []


def test_dicts_to_a_process_and_what_was_pickled() -> None:
    known = choice(habits.light, "process")
    rows = [{"number": number} for number in range(200)]
    assert "list of dicts" in said(lambda: remarks.before(known, "process", (rows,), {}))[0]
    assert said(lambda: remarks.before(known, "thread", (rows,), {})) == []
    assert said(lambda: remarks.before(known, "process", (rows[:3], b"x" * 1_000_000), {})) == []
    call: Any = SimpleNamespace(in_band=2_000_000)
    assert "2.0 MB" in said(lambda: remarks.after(known, "process", call, MS))[0]


def test_a_bound_method_of_catboost() -> None:
    known = choice(model.predict, "thread")
    texts = said(lambda: remarks.before(known, "thread", ([[1.0]],), {}))
    assert [("CatBoost a list" in text, "thread_count=-1" in text) for text in texts] == [(True, False), (False, True)]


def test_calls_that_are_shorter_than_the_interval() -> None:
    known = choice(habits.light, "thread")
    call: Any = SimpleNamespace(in_band=0)
    for _ in range(40):
        known.chooser.ran_inline(80_000)
    (text,) = said(lambda: remarks.after(known, "thread", call, MS // 2))
    assert "less than the switch interval" in text
    assert said(lambda: remarks.after(known, "thread", call, MS // 2)) == []


def test_where_warnings_are_errors_it_is_said_and_a_call_goes_on() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        remarks.warn_on_first_call(choice(predicts_everywhere), "thread")
    assert len(caught) == 1


def test_what_an_inspection_finds() -> None:
    found = Crossing()
    assert inspected(habits.sorts_a_copy, ([3, 1],), {}, found) == [1, 3]
    assert (found.refused, found.in_band > 0) == ("", True)
    found = Crossing()
    inspected(habits.takes_anything, (b"x" * 1_000_000,), {}, found)
    assert found.out_of_band == 1_000_000
    assert found.in_band < 1_000
    array = habits.ones(1_000_000)
    found = Crossing()
    inspected(habits.writes_to_argument, (array,), {}, found)
    assert found.refused == "it changes its argument"


def test_an_inspected_function_raises_what_it_raises() -> None:
    with pytest.raises(LookupError):
        inspected(habits.raises, (1,), {}, Crossing())


@pytest.mark.parametrize("fn", [habits.sorts_a_copy, habits.plain, habits.ones, habits.light, len, predicts])
def test_nothing_speaks_against_these(fn: Callable[..., Any]) -> None:
    assert stays(fn) == ""


@pytest.mark.parametrize(
    ("place", "why", "words"),
    [
        ("thread", "new", "new: 3 calls measured"),
        ("inline", "light", "0.10 ms: a loop bears it"),
        ("thread", "surprised", "longer than the others"),
        ("thread", "refused", "it stays in this process: it is odd"),
        ("thread", "payload", "0.02 MB in band would keep the loop for 3.0 ms"),
        ("thread", "faster", "0.02 MB in band; 60 ms in a process, 49 ms on the thread"),
        ("process", "calmer", "49 ms of Python that holds the GIL, 0.02 MB in band; 60 ms in a process"),
        ("process", "equal", "60 ms in a process"),
        ("thread", "alone", "auto_placements"),
        ("thread", "budget", "explore_ms"),
        ("thread", "preparing", "getting ready"),
        ("thread", "trying", "being tried"),
    ],
)
def test_reasons_in_words(place: str, why: str, words: str) -> None:
    seen = [(5, MS // 10, 0), (3, 49 * MS, 2 * MS), (5, 60 * MS, MS // 10)]
    weighed = [(49 * MS, 2 * MS), (60 * MS, MS // 10)]
    crossing = Crossing(refused="it is odd", in_band=20_000)
    assert words in reason(place, why, seen, weighed, (49 * MS, 0, 3 * MS), crossing)


@pytest.mark.parametrize(
    ("cpu_ms", "released", "lag_ms", "words"),
    [
        (49, 950, 0, "of native code, 95 % without the GIL"),
        (0, 1000, 0, "that sleeps or waits, 100 % without the GIL"),
        (0, 0, 49, "that waits with the GIL in its hands"),
        (49, 600, 1, "that hold the GIL for 40 % of it"),
    ],
)
def test_kinds_of_work_in_words(cpu_ms: int, released: int, lag_ms: int, words: str) -> None:
    seen = [(0, 0, 0), (3, 49 * MS, lag_ms * MS), (0, 0, 0)]
    assert words in reason("thread", "released", seen, [(0, 0)] * 2, (cpu_ms * MS, released, 0), Crossing())
