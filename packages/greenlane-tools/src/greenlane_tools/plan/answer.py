"""An answer of theory: a value with the formula behind it, in words and in symbols, and where that stops holding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

__all__ = ["Answer", "Formula", "Given", "spelt"]

#: What a number of a kind looks like: its unit's letters.
_UNITS: Final = {"ms": "ms", "per_s": "a second", "frac": "%", "x": "times", "gbit_per_s": "Gbit/s", "mb": "MB"}


@dataclass(frozen=True, slots=True)
class Formula:
    """One result of theory.

    Args:
        name: short, its key in `greenlane_tools.plan.formulas.FORMULAS`.
        words: what it says, one sentence without symbols.
        symbols: the formula.
        holds: where it is exact, or how far it errs.
        stops: where it stops holding.
        source: who found it.
    """

    name: str
    words: str
    symbols: str
    holds: str
    stops: str
    source: str


@dataclass(frozen=True, slots=True)
class Given:
    """A value that went into an answer.

    Args:
        symbol: as the formula writes it.
        value: in `unit`.
        unit: as of `Answer`.
    """

    symbol: str
    value: float
    unit: str = ""

    def said(self) -> str:
        """`C = 5 ms`."""
        return f"{self.symbol} = {spelt(self.value, self.unit)}"


@dataclass(frozen=True, slots=True)
class Answer:
    """A value and what it rests on.

    Args:
        value: may be inf: never, or without end.
        unit: "ms", "per_s", "frac" (0 to 1), "x", "gbit_per_s", "mb", or "" for a number of things.
        formula: that gave it.
        given: its values.
        notes: what to know of this very answer, each a sentence.
    """

    value: float
    unit: str
    formula: Formula
    given: tuple[Given, ...]
    notes: tuple[str, ...] = ()

    def said(self) -> str:
        """Value, formula and values in one line; its notes behind it."""
        with_values = ", ".join(each.said() for each in self.given)
        line = f"{spelt(self.value, self.unit)}: {self.formula.words} ({self.formula.symbols}; {with_values})"
        return " ".join((f"{line}.", *self.notes))

    def to_json(self) -> dict[str, object]:
        """For `--json`. inf, which JSON has not, is null."""
        formula = self.formula
        return {
            "formula": formula.name,
            "value": _finite(self.value),
            "unit": self.unit,
            "words": formula.words,
            "symbols": formula.symbols,
            "holds": formula.holds,
            "stops": formula.stops,
            "source": formula.source,
            "given": {each.symbol: _finite(each.value) for each in self.given},
            "notes": list(self.notes),
        }


def spelt(value: float, unit: str = "") -> str:
    """A number for people: three digits, its unit behind it; shares as per cent."""
    if not math.isfinite(value):
        return "without end" if unit in ("ms", "") else "without bound"
    if unit == "frac":
        return f"{100 * value:.3g} %"
    if unit == "ms" and value >= 1000:
        return f"{value / 1000:.3g} s"
    number = f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{number} {_UNITS[unit]}" if unit else number


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
