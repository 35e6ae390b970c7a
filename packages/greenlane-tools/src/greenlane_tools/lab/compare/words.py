"""Values and changes in words: the same in tables and on pages."""

from __future__ import annotations

from typing import Final

from greenlane_tools.lab.compare.quantities import Quantity
from greenlane_tools.lab.compare.study import Comparison
from greenlane_tools.lab.differences import Scale
from greenlane_tools.lab.statistics import Interval
from greenlane_tools.page.quantities import amount, milliseconds

__all__ = ["between", "change", "value"]

#: A ratio.
_HUGE: Final = 100.0


def value(quantity: Quantity, number: float) -> str:
    """A value with its unit."""
    if quantity.name.endswith(("_ms", "_ms_per_job")):
        return milliseconds(number)
    return f"{number * 100:.2f} %" if quantity.name.endswith("_frac") else amount(number)


def change(each: Comparison) -> str:
    """From A to B: "-23 %", "2.4×", "+1.2 points"."""
    return _change(each, _interval(each).at)


def between(each: Comparison) -> str:
    """The interval of `change`."""
    found = _interval(each)
    if each.quantity.scale is Scale.DIFFERENCE:
        return f"{found.low * 100:+.2f} to {found.high * 100:+.2f}"
    return f"{_change(each, found.low)} to {_change(each, found.high)}"


def _interval(each: Comparison) -> Interval:
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
