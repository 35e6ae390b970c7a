"""A claim against what was measured: the interval, the target, and whether it holds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from greenlane_tools.page.quantities import amount

__all__ = ["Verdict"]


@dataclass(frozen=True)
class Verdict:
    """One claim.

    Args:
        text: what is compared, in words.
        measured: the pooled value.
        low, high: 95 % by Student's t over repetitions; NaN = not known.
        relation: "<=" or ">=".
        target: what it must reach.
        remark: what it is made of, or what bounds it.
        unit: of measured and target, with its space; "" = a factor or a number of things.
    """

    text: str
    measured: float
    low: float
    high: float
    relation: str
    target: float
    remark: str = ""
    unit: str = ""

    @property
    def holds(self) -> bool:
        """Whether the pooled value reaches the target."""
        return self.measured <= self.target if self.relation == "<=" else self.measured >= self.target

    @property
    def word(self) -> str:
        """`holds` or `FAILS`; with doubt where a part of the interval says otherwise."""
        short, beyond = (self.low, self.high) if self.relation == ">=" else (-self.high, -self.low)
        target = self.target if self.relation == ">=" else -self.target
        crosses = short < target if self.holds else beyond >= target
        return f"{'holds' if self.holds else 'FAILS'}{' (interval crosses)' * crosses}"

    def said(self) -> str:
        """One line."""
        between = "" if math.isnan(self.low) else f" [{amount(self.low)}, {amount(self.high)}]"
        sign = "≤" if self.relation == "<=" else "≥"
        measured, target = f"{amount(self.measured)}{self.unit}{between}", f"{self.target:g}{self.unit}"
        line = f"{self.text}: {measured} {sign} {target}: {self.word}"
        return f"{line}; {self.remark}" if self.remark else line

    def row(self) -> dict[str, object]:
        """For `--json`, which knows neither infinity nor NaN: null."""
        values = {"measured": self.measured, "low": self.low, "high": self.high}
        return {
            "text": self.text, "relation": self.relation, "target": self.target,
            **{name: value if math.isfinite(value) else None for name, value in values.items()},
            "unit": self.unit, "holds": self.holds, "remark": self.remark,
        }  # fmt: skip
