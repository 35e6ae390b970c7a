"""A row a comparison, for `--json` and tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from greenlane_tools.lab.compare.study import Comparison, Study
from greenlane_tools.lab.compare.subject import said
from greenlane_tools.lab.compare.verdicts import Quantity
from greenlane_tools.lab.differences import Scale
from greenlane_tools.lab.statistics import Interval
from greenlane_tools.page.quantities import amount, milliseconds

__all__ = ["between", "change", "conclusion", "counted", "rows_of", "value"]


def rows_of(study: Study) -> list[dict[str, object]]:
    """Rows of `--json`: by endpoint, then quantity. Units are in `quantity`: `p99_ms`, `within_deadline_frac`."""
    return [_row(each, study) for each in study.comparisons]


def _row(each: Comparison, study: Study) -> dict[str, object]:
    sides = each.place.sides[each.a], each.place.sides[each.b]
    return {
        "a": each.a,
        "b": each.b,
        **dict(each.place.cell),
        "cell": said(each.place.cell),
        "endpoint": each.place.endpoint,
        "stage": "client",
        "quantity": each.quantity.name,
        **_interval("a_value", each.a_value),
        **_interval("b_value", each.b_value),
        **_interval("difference", each.found.difference),
        **_interval("ratio", each.found.ratio),
        "p_value": each.found.p_value,
        "p_adjusted": each.p_adjusted,
        "comparisons": len(study.comparisons),
        "verdict": each.verdict.word.value,
        "because": each.verdict.because,
        "repetitions_needed": each.verdict.needed or None,
        "smallest_effect_frac": study.smallest_frac,
        "deadline_ms": sides[0].deadline_ms,
        "paired": each.paired,
        "repetitions_a": 1 if sides[0].single else each.repetitions[0],
        "repetitions_b": 1 if sides[1].single else each.repetitions[1],
        "samples_a": sides[0].offered,
        "samples_b": sides[1].offered,
    }


def _interval(name: str, found: Interval | None) -> dict[str, object]:
    if found is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {name: found.at, f"{name}_low": found.low, f"{name}_high": found.high}


def conclusion(study: Study) -> str:
    """One sentence a pair of sides."""
    first, *others = study.subjects
    told = []
    for other in others:
        found = [each for each in study.comparisons if each.b == other.name]
        if found:
            told.append(f"{other.name} against {first.name}: {counted(found)}.")
    return " ".join(told)


def counted(found: Sequence[Comparison]) -> str:
    """How many got which verdict: "4 better, 1 worse, 7 the same (5 of them cannot be told)"."""
    words = [each.verdict.word.value for each in found]
    unknown = sum(each.verdict.open for each in found)
    parts = [f"{words.count(word)} {said}" for word, said in (("better", "better"), ("worse", "worse"))]
    same = f"{words.count('same')} the same"
    if unknown:
        same += " (it cannot be told)" if unknown == words.count("same") else f" ({unknown} of them cannot be told)"
    return ", ".join([*parts, same]) + f", of {len(found)} comparisons"


# --- Values and changes in words: the same in tables and on pages.

#: A ratio.
_HUGE: Final = 100.0


def value(quantity: Quantity, number: float) -> str:
    """A value with its unit."""
    if quantity.name.endswith(("_ms", "_ms_per_job")):
        return milliseconds(number)
    return f"{number * 100:.2f} %" if quantity.name.endswith("_frac") else amount(number)


def change(each: Comparison) -> str:
    """From A to B: "-23 %", "2.4×", "+1.2 points"."""
    return _change(each, _ends(each).at)


def between(each: Comparison) -> str:
    """The interval of `change`."""
    found = _ends(each)
    if each.quantity.scale is Scale.DIFFERENCE:
        return f"{found.low * 100:+.2f} to {found.high * 100:+.2f}"
    return f"{_change(each, found.low)} to {_change(each, found.high)}"


def _ends(each: Comparison) -> Interval:
    ratio = each.found.ratio if each.quantity.scale is Scale.RATIO else None
    return ratio or each.found.difference


def _change(each: Comparison, number: float) -> str:
    if each.quantity.scale is Scale.DIFFERENCE:
        return f"{number * 100:+.2f} points"
    if each.found.ratio is None:
        return f"{'+' if number > 0 else ''}{value(each.quantity, number)}"
    if number >= _HUGE or number <= 1 / _HUGE:  # of wide intervals: no digit of it is known
        return "over 100×" if number > 1 else "-99 %"
    # Adding 0 makes of -0.0 what it is.
    return f"{amount(number)}×" if number >= 2 else f"{round((number - 1) * 100, 1) + 0.0:+.1f} %"
