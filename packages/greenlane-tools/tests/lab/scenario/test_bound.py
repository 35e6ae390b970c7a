"""Bounds: what they say, and how they are judged."""

from __future__ import annotations

import dataclasses

import pytest
from tests.lab.made import PRICING, run, sample

from greenlane_tools.lab.run.judged import judged
from greenlane_tools.lab.run.performed import Closed
from greenlane_tools.lab.run.rows import pooled
from greenlane_tools.lab.scenario.parts import parsed


@pytest.mark.parametrize(
    "text",
    [
        "bikes.within_deadline_frac >= 0.999 for greenlane",
        "quote.p99_ms <= 1.25 * gevent for greenlane at 0.9",
        "bikes.p99_ms<=1e-3 for gthread-64-0.5ms at x2 in surge by h2load",
        "all.errors == 0 for greenlane",
    ],
)
def test_a_bound_is_read(text: str) -> None:
    found = parsed(text)
    assert found is not None and found.text == text


def test_each_part_is_where_it_belongs() -> None:
    found = parsed("bikes.p99_ms <= 1.5 * gevent for gthread-64 at x2 in surge by ab")
    assert found is not None
    assert (found.endpoint, found.field, found.relation, found.number) == ("bikes", "p99_ms", "<=", 1.5)
    assert (found.rival, found.contender, found.level, found.phase, found.tool) == (
        "gevent",
        "gthread-64",
        "x2",
        "surge",
        "ab",
    )


@pytest.mark.parametrize(
    "text", ["bikes fast", "bikes.p99_ms < 5 for a", "bikes.p90_ms <= 5 for a", "bikes.p99_ms <= 1.2.3 for a", ""]
)
def test_what_is_no_bound_is_none(text: str) -> None:
    assert parsed(text) is None


def verdicts(*bounds: str) -> list[tuple[str, str]]:
    expectations = tuple(one for one in map(parsed, bounds) if one is not None)
    scenario = dataclasses.replace(PRICING, expectations=expectations, utilisations_frac=(0.6, 0.9))
    runs = [run([sample(300.0)], "gevent", 0.9), run([sample(100.0)], "greenlane", 0.6), run([sample(200.0)])]
    tooled = dataclasses.replace(runs[2], contrast=(Closed("ab", 8.0, 9, 0, 1.0, 2.0, 3.0),))
    return [(one.level, one.verdict) for one in judged(scenario, pooled(scenario, [*runs[:2], tooled]))]


def test_a_bound_without_a_level_is_judged_at_each() -> None:
    assert verdicts("bikes.p99_ms <= 150 for greenlane") == [("0.6", "holds"), ("0.9", "fails")]


def test_a_factor_of_a_rival_is_of_the_same_level() -> None:
    assert verdicts("bikes.p99_ms <= 0.7 * gevent for greenlane at 0.9") == [("0.9", "holds")]
    assert verdicts("bikes.p99_ms <= 0.6 * gevent for greenlane at 0.9") == [("0.9", "fails")]
    assert verdicts("bikes.p99_ms <= 0.6 * gevent for greenlane at 0.6") == [("0.6", "not measured")]


def test_a_closed_loop_tool_s_figure_is_judged_where_it_ran_and_who_did_not_take_part_is_not() -> None:
    assert verdicts("bikes.p99_ms <= 3 for greenlane at 0.9 by ab") == [("0.9", "holds")]
    assert verdicts("bikes.p99_ms <= 3 for greenlane at 0.9 by wrk") == []
    assert verdicts("bikes.p99_ms <= 3 for dedicated") == []
