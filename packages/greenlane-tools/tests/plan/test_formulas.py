"""Every answer comes with its formula: in words, in symbols, where it holds and where it stops."""

from __future__ import annotations

import json
import math

import pytest

from greenlane_tools.plan import bounds, formulas
from greenlane_tools.plan.answer import Answer, spelt
from greenlane_tools.plan.decision_case import gbit_per_s
from greenlane_tools.plan.formulas import FORMULAS
from greenlane_tools.plan.slots import slots
from greenlane_tools.plan.waiting import Waiting, shared_ms


def every_answer() -> list[Answer]:
    means = bounds.closed(5, 55, 12)
    waits = [
        Waiting.exponential(100, 5), Waiting.constant(100, 5), Waiting.like(100, 5, 2), Waiting.like(500, 5, 2, 4)
    ]  # fmt: skip
    return [
        bounds.knee(5, 55), bounds.speed_up(5, 55), bounds.most(5, 55, 12), bounds.least(5, 55, 12),
        means.done, means.latency, means.busy, bounds.at_once(5, 55), bounds.in_progress(10, 100),
        bounds.hard_lane(4, 0.1), shared_ms(5, 0.5), gbit_per_s(3333, 4),
        *(each for queue in waits for each in (queue.busy(), queue.wait_ms(), queue.quantile_ms(0.99))),
        slots(2, 3000, 20).needed,
    ]  # fmt: skip


@pytest.mark.parametrize("formula", FORMULAS.values(), ids=str)
def test_a_formula_says_everything_about_itself(formula: formulas.Formula) -> None:
    for name in ("words", "symbols", "holds", "stops", "source"):
        text = getattr(formula, name)
        assert text and text == text.strip() and not text.endswith("."), (formula.name, name)


def test_answers_name_their_formula_and_their_values() -> None:
    for answer in every_answer():
        assert FORMULAS[answer.formula.name] is answer.formula
        said = answer.said()
        assert answer.formula.words in said and answer.formula.symbols in said
        assert all(each.symbol in said for each in answer.given)
        assert json.loads(json.dumps(answer.to_json(), allow_nan=False))["stops"] == answer.formula.stops
        assert not math.isnan(answer.value)


def test_numbers_are_spelt_for_people() -> None:
    spelt_out = [
        spelt(12),
        spelt(0.7576, "frac"),
        spelt(5.25, "ms"),
        spelt(1230, "ms"),
        spelt(12345),
        spelt(math.inf, "ms"),
    ]
    assert spelt_out == ["12", "75.8 %", "5.25 ms", "1.23 s", "12,345", "without end"]
    assert [spelt(16.67, "per_s"), spelt(12, "x"), spelt(106.7, "gbit_per_s")] == [
        "16.7 a second", "12 times", "107 Gbit/s"
    ]  # fmt: skip
