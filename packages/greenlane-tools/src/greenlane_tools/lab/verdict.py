"""A claim against what was measured: the interval, the target, and whether it holds."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from greenlane_tools.lab.statistics import critical
from greenlane_tools.page.quantities import amount


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
        """`holds` or `FAILS`; with a remark where a part of the interval says otherwise."""
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


# --- Two sides whose n-th repetitions ran under the same conditions: their ratio, their difference, the intervals.
# Student's t over repetitions, 95 %: `differences` judges by bootstrap; here few runs are held to a target.

#: The pooled value, and the ends of its interval; NaN = not known.
Interval = tuple[float, float, float]
#: Beyond this factor nothing is known, and nothing overflows.
_MOST_LOG = 50.0

T = TypeVar("T")


def alone(runs: Sequence[T], statistic: Callable[[Sequence[T]], float]) -> Interval:
    """`statistic` of all runs together; its interval as each run gives it."""
    at = statistic(runs)
    half = _half([statistic([one]) for one in runs])
    return at, at - half, at + half


def ratio(ours: Sequence[T], theirs: Sequence[T], statistic: Callable[[Sequence[T]], float]) -> Interval:
    """Our `statistic` ÷ theirs; its interval on logarithms."""
    at = _divided(statistic(ours), statistic(theirs))
    each = [_divided(statistic([a]), statistic([b])) for a, b in zip(ours, theirs, strict=False)]
    if not all(0 < value < math.inf for value in each):
        return at, math.nan, math.nan
    half = min(_half([math.log(value) for value in each]), _MOST_LOG)
    return at, at * math.exp(-half), at * math.exp(half)


def difference(ours: Sequence[T], theirs: Sequence[T], statistic: Callable[[Sequence[T]], float]) -> Interval:
    """Our `statistic` less theirs."""
    at = statistic(ours) - statistic(theirs)
    half = _half([statistic([a]) - statistic([b]) for a, b in zip(ours, theirs, strict=False)])
    return at, at - half, at + half


def _half(values: Sequence[float]) -> float:
    """Half the width of the interval of their mean; NaN of one, and where one is not finite."""
    if len(values) < 2 or not all(map(math.isfinite, values)):
        return math.nan
    return critical(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))


def _divided(one: float, other: float) -> float:
    return one / other if other else math.inf
