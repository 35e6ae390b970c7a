"""A claim of the proof: a verdict of the lab with the block that it belongs to; statistics of runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from greenlane_tools.lab import verdict
from greenlane_tools.lab.run.rows import GRACE_S, Run, answered_well, in_time
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.statistics import quantile, wilson


@dataclass(frozen=True)
class Claim(verdict.Verdict):
    """One line of the proof."""

    block: str = ""
    digits: int = 3

    def line(self) -> str:
        """As text: measured [interval], target, verdict."""
        note = f"  ({self.remark})" if self.remark else ""
        return f"  {self.text:<66}{self.value():>26}  {self.goal():<9} {self.word}{note}"

    def value(self) -> str:
        """What was measured, with its interval."""
        ends = "" if math.isnan(self.low) else f" [{self.low:.{self.digits}f}, {self.high:.{self.digits}f}]"
        return f"{self.measured:.{self.digits}f}{ends}{self.unit}"

    def goal(self) -> str:
        """What it must reach."""
        return f"{'≤' if self.relation == '<=' else '≥'} {self.target:g}{self.unit}"


Statistic = Callable[[Sequence[Run]], float]


def of_p(share: float, endpoint: str) -> Statistic:
    """A percentile of an endpoint's latency over pooled runs, in ms; NaN without samples."""

    def statistic(runs: Sequence[Run]) -> float:
        found = Samples.joined([run.samples.of(endpoint) for run in runs]).answered()
        return quantile(found, share) if len(found) else math.nan

    return statistic


def done_per_s(runs: Sequence[Run]) -> float:
    """Answers per second of load, a second of grace after it (rows.GRACE_S)."""
    done = sum(
        int((answered_well(run.samples) & (run.samples.done_ns <= (run.seconds + GRACE_S) * 1e9)).sum()) for run in runs
    )
    return done / sum(run.seconds for run in runs)


def share_within(runs: Sequence[Run], endpoint: str, deadline_ms: float) -> tuple[float, float, float]:
    """Share in time with its Wilson interval."""
    samples = Samples.joined([run.samples.of(endpoint) for run in runs])
    hits = in_time(samples, deadline_ms)
    return (hits / len(samples) if len(samples) else 0.0, *wilson(hits, len(samples)))


def ratio(ours: Sequence[Run], theirs: Sequence[Run], statistic: Statistic) -> tuple[float, float, float]:
    """statistic(ours) ÷ statistic(theirs), and its interval; both had the same load in each repetition."""
    mine, other = ({run.turn.repetition: run for run in runs} for runs in (ours, theirs))
    shared = sorted(mine.keys() & other.keys())
    return verdict.ratio([mine[n] for n in shared], [other[n] for n in shared], statistic)


def best(cells: dict[str, list[Run]], names: Sequence[str], statistic: Statistic, lowest: bool = True) -> str:
    """The contender among `names` with the lowest (or highest) value."""
    present = [name for name in names if cells.get(name)]
    return (min if lowest else max)(present, key=lambda name: statistic(cells[name]))


def of_verdicts(block: str, verdicts: Sequence[Mapping[str, Any]], digits: int) -> list[Claim]:
    """What a system's demo has judged itself, as it is stored; there what is not finite has no number."""
    return [
        Claim(
            one["text"], _known(one), *(math.nan if one[end] is None else one[end] for end in ("low", "high")),
            one["relation"], one["target"], one["remark"], one["unit"], block, digits,
        )
        for one in verdicts
    ]  # fmt: skip


def _known(one: Mapping[str, Any]) -> float:
    """Without a number it is as judged."""
    if (at := one["measured"]) is not None:
        return float(at)
    return math.inf if (one["relation"] == "<=") != one["holds"] else -math.inf
