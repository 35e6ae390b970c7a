"""A claim: what was said, what was measured with its interval, the target, and whether it holds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from greenlane_tools.lab.run.performed import Run
from greenlane_tools.lab.run.rows import GRACE_S, answered_well, in_time
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.statistics import quantile, wilson


@dataclass(frozen=True)
class Claim:
    """One line of the proof."""

    block: str
    text: str
    measured: float
    # 95 %: Wilson's for shares, else a bootstrap over repetitions, both sides of a ratio drawn together.
    low: float
    high: float
    relation: Literal["≥", "≤"]
    target: float
    # How many digits, and what follows the number.
    digits: int = 3
    unit: str = ""
    note: str = ""

    @property
    def holds(self) -> bool:
        """The point estimate reaches the target."""
        return self.measured >= self.target if self.relation == "≥" else self.measured <= self.target

    @property
    def verdict(self) -> str:
        """In words: whether it holds, and whether the whole interval does."""
        worst = self.low if self.relation == "≥" else self.high
        best = self.high if self.relation == "≥" else self.low
        beyond = worst >= self.target if self.relation == "≥" else worst <= self.target
        short = best < self.target if self.relation == "≥" else best > self.target
        if self.holds:
            return "holds" if beyond else "holds (interval crosses)"
        return "FAILS" if short else "FAILS (interval crosses)"


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
    """statistic(ours) ÷ statistic(theirs), and its 95 % bootstrap interval over repetitions.

    Both had the same load in each repetition, so repetitions are drawn in pairs. With n of them there are only
    C(2n-1, n) different draws (126 for 5): all are computed, with their probabilities, and nothing is random.
    """
    mine, other = _by_repetition(ours), _by_repetition(theirs)
    shared = sorted(mine.keys() & other.keys())
    point = _divided(statistic([mine[n] for n in shared]), statistic([other[n] for n in shared]))
    draws = sorted(
        (_divided(statistic([mine[n] for n in draw]), statistic([other[n] for n in draw])), weight)
        for draw, weight in _draws(shared)
    )
    return point, _weighted(draws, 0.025), _weighted(draws, 0.975)


def best(cells: dict[str, list[Run]], names: Sequence[str], statistic: Statistic, lowest: bool = True) -> str:
    """The contender among `names` with the lowest (or highest) value."""
    present = [name for name in names if cells.get(name)]
    return (min if lowest else max)(present, key=lambda name: statistic(cells[name]))


def _by_repetition(runs: Sequence[Run]) -> dict[int, Run]:
    return {run.turn.repetition: run for run in runs}


def _draws(repetitions: Sequence[int]) -> Iterator[tuple[tuple[int, ...], float]]:
    count = len(repetitions)
    for draw in itertools.combinations_with_replacement(repetitions, count):
        ways = math.factorial(count)
        for one in set(draw):
            ways //= math.factorial(draw.count(one))
        yield draw, ways / count**count


def _weighted(draws: Sequence[tuple[float, float]], share: float) -> float:
    reached = 0.0
    for value, weight in draws:
        reached += weight
        if reached >= share:
            return value
    return draws[-1][0]


def _divided(above: float, below: float) -> float:
    return above / below if below else math.inf


def of_verdicts(block: str, verdicts: Sequence[Mapping[str, Any]], digits: int) -> list[Claim]:
    """What a system's demo has judged itself, as it is stored; there what is not finite has no number."""
    return [
        Claim(
            block, one["text"], *_between(one), "≤" if one["relation"] == "<=" else "≥", one["target"], digits=digits,
            unit=one["unit"], note=one["remark"],
        )
        for one in verdicts
    ]  # fmt: skip


def _between(one: Mapping[str, Any]) -> tuple[float, float, float]:
    """A count of all runs, or one repetition, has no interval: the value itself; without a number it is as judged."""
    at = one["measured"]
    if at is None:
        at = math.inf if (one["relation"] == "<=") != one["holds"] else -math.inf
    return (at, at, at) if one["low"] is None else (at, one["low"], one["high"])
