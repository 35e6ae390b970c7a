"""Numbers with a unit: said to people, and read as what-ifs: `0.5x` times, `+50ms` more, `-5ms` less, `12ms`."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from greenlane.errors import PlanError

__all__ = ["MILLISECONDS", "PER_SECOND", "Amount", "Unit", "amount"]

#: What was said, a unit's letters by its factor.
Unit = Mapping[str, float]
MILLISECONDS: Final[Unit] = {"ms": 1.0, "s": 1000.0, "us": 0.001}
PER_SECOND: Final[Unit] = {"/s": 1.0, "/min": 1 / 60, "/h": 1 / 3600}

_UNITS: Final = {"ms": "ms", "per_s": "a second"}
_AMOUNT: Final = re.compile(r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>x|[a-z/]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Amount:
    """One change of a value."""

    how: Literal["times", "plus", "to"]
    #: A factor; else in ms, or a second. `plus` may be negative.
    value: float

    def of(self, value: float) -> float:
        """The changed value, never below 0."""
        if self.how == "times":
            return value * self.value
        return max(0.0, value + self.value) if self.how == "plus" else self.value

    def said(self, unit: str) -> str:
        """`times 0.5`, `50 ms more`, `12 ms`; `unit`: ms or per_s."""
        if self.how == "times":
            return f"times {self.value:.3g}"
        if self.how == "to":
            return _spelt(self.value, unit)
        return f"{_spelt(abs(self.value), unit)} {'more' if self.value >= 0 else 'less'}"


def amount(option: str, text: str, units: Unit) -> Amount:
    """Reads one.

    Args:
        option: as the user wrote it, for messages.
        text: `0.5x`, `+50ms` …
        units: that it may have.

    Raises: PlanError that names option, text and what it may be.
    """
    found = _AMOUNT.fullmatch(text.strip())
    sign, unit = (found["sign"], found["unit"].lower()) if found else ("", "")
    number = float(found["number"]) if found else math.nan
    if unit == "x" and not sign:
        return Amount("times", number)
    if found is None or unit not in units:
        raise PlanError("read a what-if", name=option, value=text, rule=_rule(units), hint=_hint(text, units))
    value = number * units[unit]
    return Amount("plus", -value if sign == "-" else value) if sign else Amount("to", value)


def _spelt(value: float, unit: str) -> str:
    number = f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{number} {_UNITS[unit]}"


def _rule(units: Unit) -> str:
    unit = next(iter(units))
    return f"a factor such as 0.5x, more or less such as +50{unit} or -5{unit}, or a value such as 12{unit}"


def _hint(text: str, units: Unit) -> str:
    if re.fullmatch(r"[+-]?[\d.]+", text.strip()):
        return f"say what it is: {text.strip()}x or {text.strip()}{next(iter(units))}"
    return f"units are {', '.join(units)}"
