"""Who pays: our latencies over those of plain threads and of the best stock server, class by class.

What one class gains in a queue others may pay for. Here nobody is left out: every class at every load, p50, p95 and
p99, and the worst of all by name. A percentile beyond which fewer than five requests lie is one of chance, and is not
compared. A contender with a process more than the others is no stock server to be measured by.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.lab.run.rows import ALL, CLIENT, Row, find
from greenlane_tools.lab.scenario.scenario import Level, Scenario

__all__ = ["OURS", "Paid", "laws", "lines", "paid", "payers_table", "worst"]

#: The contender in question.
OURS: Final = "greenlane"
#: What is compared, and how many requests of a class in a cell it takes.
QUANTILES: Final = {"p50": 10, "p95": 100, "p99": 500}


@dataclass(frozen=True)
class Paid:
    """One class at one load. Ratios under 1 are gains."""

    endpoint: str
    level: Level
    #: One of `QUANTILES`.
    quantile: str
    to_threads: float
    #: To the stock server that is best just here.
    to_best: float


def paid(scenario: Scenario, rows: Sequence[Row]) -> list[Paid]:
    """By load, quantile and class; nothing where we or the contender that was calibrated on did not take part."""
    whole = [row for row in rows if row.phase == ALL and row.stage == CLIENT and row.endpoint != ALL]
    levels = dict.fromkeys(row.level for row in whole)
    return [
        one
        for level in levels
        for quantile in QUANTILES
        for each in scenario.classes
        for one in _paid(scenario, whole, level, quantile, each.name)
    ]


def _paid(scenario: Scenario, rows: Sequence[Row], level: Level, quantile: str, endpoint: str) -> Iterator[Paid]:
    stock = [one.name for one in scenario.contenders if not one.name.startswith(OURS) and not one.apart]

    def value(contender: str) -> float | None:
        row = find(rows, contender, endpoint, level)
        if row is None or row.samples < QUANTILES[quantile]:
            return None
        return {"p50": row.p50_ms, "p95": row.p95_ms, "p99": row.p99_ms}[quantile]

    ours, threads = value(OURS), value(scenario.calibrated_on)
    best = min((found for found in map(value, stock) if found), default=None)
    if ours is not None and threads and best:
        yield Paid(endpoint, level, quantile, ours / threads, ours / best)


def worst(scenario: Scenario, rows: Sequence[Row]) -> str:
    """The class that pays most, in a sentence; "" = there is nothing to compare."""
    found = max(paid(scenario, rows), key=lambda one: one.to_threads, default=None)
    if found is None:
        return ""
    at = f" at {found.level.label}" if len(scenario.levels()) > 1 else ""
    return (
        f"Who pays most: {found.endpoint}, {found.quantile}{at}: {found.to_threads:.2f} of {scenario.calibrated_on}'s, "
        f"{found.to_best:.2f} of the best stock server's."
    )


def lines(scenario: Scenario, rows: Sequence[Row]) -> list[list[str]]:
    """A heading, then a line a load and quantile, a cell a class; [] = there is nothing to compare."""
    found = paid(scenario, rows)
    if not found:
        return []
    names = list(dict.fromkeys(one.endpoint for one in found))
    cells = {(one.level, one.quantile, one.endpoint): f"{one.to_threads:.2f} / {one.to_best:.2f}" for one in found}
    heads = ["load", "", *names]
    return [heads] + [
        [level.label, quantile] + [cells.get((level, quantile, name), "-") for name in names]
        for level, quantile in dict.fromkeys((one.level, one.quantile) for one in found)
    ]


def laws(scenario: Scenario, rows: Sequence[Row]) -> list[str]:
    """By load, what any order would take from the other classes for what the light ones gain, and what ours takes.

    Kleinrock's conservation law: while the CPU never idles beside work, the sum over classes of their share of it times
    their mean wait is the same under every order that does not know how long a job will take. Strictly for orders that
    finish what they begin, or work of exponential length; plain threads share, and our switches are not free.
    """
    whole = [row for row in rows if row.phase == ALL and row.stage == CLIENT]
    levels = dict.fromkeys(row.level for row in whole)
    return [said for level in levels if (said := _law(scenario, whole, level))]


def _law(scenario: Scenario, rows: Sequence[Row], level: Level) -> str:
    light, others, ours = 0.0, 0.0, 0.0
    for each in scenario.classes:
        mine, threads = (find(rows, name, each.name, level) for name in (OURS, scenario.calibrated_on))
        if not each.cpu_share_frac or mine is None or threads is None or not mine.mean_ms or not threads.mean_ms:
            return ""
        if each.lane == "light":
            light += each.cpu_share_frac * (threads.mean_ms - mine.mean_ms)
        else:
            others += each.cpu_share_frac * threads.mean_ms
            ours += each.cpu_share_frac * mine.mean_ms
    if not others:
        return ""
    return (
        f"ideal order at {level.label}: for what the light classes gain the others' mean is {1 + light / others:.2f} "
        f"of {scenario.calibrated_on}'s (conservation law); it is {ours / others:.2f}"
    )


def payers_table(scenario: Scenario, rows: Sequence[Row]) -> str:
    """The lines as text: our latency over threads' / over the best stock server's."""
    text = [f"  who pays: greenlane over {scenario.calibrated_on} / over the best stock server"]
    for load, quantile, *cells in lines(scenario, rows):
        text.append(f"  {load:<6}{quantile:<6}" + "".join(f"{cell:>14}" for cell in cells))
    text += [f"  {law}" for law in laws(scenario, rows)]
    return "\n".join(text) if len(text) > 1 else ""
