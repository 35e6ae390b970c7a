"""What the checker says of a verdict beside a truth."""

from __future__ import annotations

from typing import Any

import pytest
from tests.truths.check import TRUTHS
from tests.truths.truth import compared

_TRUTH = TRUTHS["pool_dependency"]
_LINE = min(_TRUTH.lines)
_RIGHT = {
    "victim": {"route": "GET /quote"},
    "resource": {"kind": "connection_pool", "name": "SQLAlchemy QueuePool 127.0.0.1:5432", "capacity": 5},
    "holder": {"who": "GET /quote", "line": f"{_LINE} quote", "meanwhile": "calls of 127.0.0.1:9000"},
    "remedy": {"key": "release_connection"},
}


def _wrong(brief: str = "Give the connection back.", **changes: Any) -> list[str]:
    return [part.name for part in compared(_TRUTH, {**_RIGHT, **changes}, brief) if not part.right]


def test_a_verdict_that_says_the_truth_is_right_in_every_part() -> None:
    assert _wrong() == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"victim": {"route": "GET /other"}}, ["victim"]),
        ({"resource": {**_RIGHT["resource"], "kind": "executor"}}, ["resource"]),
        ({"resource": {**_RIGHT["resource"], "name": "a pool"}}, ["resource"]),
        ({"resource": {**_RIGHT["resource"], "capacity": 10}}, ["capacity"]),
        ({"holder": {**_RIGHT["holder"], "line": "pool.py:9 get"}}, ["line"]),
        ({"holder": None}, ["holder", "line", "meanwhile"]),
        ({"remedy": {"key": "look_closer"}}, ["remedy"]),
        ({"remedy": {"key": "more_threads"}}, ["remedy", "no wrong one"]),
    ],
)
def test_each_part_that_differs_is_named(changes: dict[str, Any], expected: list[str]) -> None:
    assert _wrong(**changes) == expected


def test_a_first_screen_that_prints_a_remedy_which_cannot_help_is_wrong() -> None:
    assert _wrong("Serve with --threads 64.") == ["no wrong one"]


def test_without_a_verdict_nothing_is_right_but_that_no_wrong_one_is_printed() -> None:
    assert [part.name for part in compared(_TRUTH, None, "") if part.right] == ["no wrong one"]


@pytest.mark.parametrize("name", TRUTHS)
def test_a_truth_that_asks_for_a_line_has_one(name: str) -> None:
    truth = TRUTHS[name]
    assert truth.lines or not (truth.holder and truth.line)
