"""What must be shown of offers, against what was measured in the same run."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Sequence
from operator import add
from typing import Final

from greenlane_tools.lab import verdict
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page.quantities import milliseconds

from .counts import Counts
from .turn import Turn

__all__ = ["FEWEST_OFFERS", "verdicts_of"]

#: What the stock server shows where the mix is bad.
_STOCK: Final = "gevent"
_SUCCESS: Final = 0.995
_P99_P95: Final = 2.0
_P999_P95: Final = 3.0
#: What a fix must reach.
_FIXED: Final = ("greenlane", "greenlane-soft")
#: Of them, the one that is a change of the worker class and nothing else.
_NO_PROCESS: Final = "greenlane"
_MISSED: Final = 3
_FLAT: Final = 1.3
#: So many offers make a claim about three of them; fewer are held to the same share, rounded up.
FEWEST_OFFERS: Final = 60_000
_EXACT_FROM: Final = 10_000

Runs = Sequence[Turn]


def verdicts_of(turns: Runs, bad: str) -> list[Verdict]:
    """Region by region; none of a contender that did not run.

    Args:
        turns: what was measured.
        bad: the region of which it is claimed that the stock server fails in it.
    """
    found: list[Verdict] = []
    for region in dict.fromkeys(one.region for one in turns):
        mine: dict[str, list[Turn]] = {}
        for one in turns:
            if one.region == region:
                mine.setdefault(one.contender, []).append(one)
        for name, runs in mine.items():
            if name == _STOCK and region == bad:
                found += _bad(region, runs)
            elif name in _FIXED:
                found += _good(region, name, runs)
        if _STOCK in mine and _NO_PROCESS in mine:
            found.append(_no_process(region, mine[_STOCK], mine[_NO_PROCESS]))
    return found


def _bad(region: str, runs: Runs) -> Iterator[Verdict]:
    counts = _sum(runs)
    remark = f"{counts.late:,} of {counts.ended:,} bike and scooter offers were late"
    if others := counts.refused + counts.failed:
        remark += f"; {others:,} that were refused or failed are not held against it"
    yield Verdict(f"{_STOCK} in {region}: offers in time", *verdict.alone(runs, _share), "<=", _SUCCESS, remark)
    yield _ratio(f"{_STOCK} in {region}: offers' p99 ÷ p95", runs, 0.99, ">=", _P99_P95)
    if counts.samples >= _EXACT_FROM:
        yield _ratio(f"{_STOCK} in {region}: offers' p99.9 ÷ p95", runs, 0.999, ">=", _P999_P95)


def _good(region: str, name: str, runs: Runs) -> Iterator[Verdict]:
    counts = _sum(runs)
    missed, target = counts.ended - counts.made, math.ceil(_MISSED * min(1.0, counts.ended / FEWEST_OFFERS))
    few = f"; the claim is about {FEWEST_OFFERS:,}" if counts.ended < FEWEST_OFFERS else ""
    remark = f"of {counts.ended:,}{few}"
    text = f"{name} in {region}: bike and scooter offers missed"
    yield Verdict(text, missed, math.nan, math.nan, "<=", target, remark)
    # Of fewer samples the 99.9th percentile is the largest one.
    share, word = (0.999, "p99.9") if counts.samples >= _EXACT_FROM else (0.99, "p99")
    yield _ratio(f"{name} in {region}: offers' {word} ÷ p95", runs, share, "<=", _FLAT)


def _no_process(region: str, stock: Runs, ours: Runs) -> Verdict:
    most, least = (max(run.used.processes for run in ours), min(run.used.processes for run in stock))
    text = f"{_NO_PROCESS} in {region}: processes beyond {_STOCK}'s"
    return Verdict(text, most - least, math.nan, math.nan, "<=", 0, f"{most} and {least}")


def _ratio(text: str, runs: Runs, share: float, relation: str, target: float) -> Verdict:
    def statistic(some: Runs) -> float:
        counts = _sum(some)
        return counts.quantile_ms(share) / counts.quantile_ms(0.95)

    counts = _sum(runs)
    remark = f"{milliseconds(counts.quantile_ms(share))} and {milliseconds(counts.quantile_ms(0.95))}"
    return Verdict(text, *verdict.alone(runs, statistic), relation, target, remark)


def _share(runs: Runs) -> float:
    """In time, of all that ended; NaN of none. A server that answers nothing is broken, which is another claim."""
    counts = _sum(runs)
    return 1 - counts.late / counts.ended if counts.ended else math.nan


def _sum(runs: Runs) -> Counts:
    return functools.reduce(add, (run.counts for run in runs))
