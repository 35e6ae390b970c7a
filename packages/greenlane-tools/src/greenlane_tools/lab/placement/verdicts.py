"""What is claimed of our placements, against what was measured in the same run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from greenlane_tools.lab import verdict
from greenlane_tools.lab.placement.cells import Cell, Measured
from greenlane_tools.lab.placement.contenders import FIXED, OURS
from greenlane_tools.lab.placement.functions import Function
from greenlane_tools.lab.placement.run import Run
from greenlane_tools.lab.statistics import quantile

__all__ = ["Choice", "Verdict", "choices_of", "verdicts_of"]

#: Ours, chosen, against the best placement that is fixed: its median, and its heartbeat.
_MOST_FACTOR: Final = 1.10
_MOST_BEAT_MS: Final = 2.0
#: The native thread: what it adds to the heartbeat, and the work done against inline.
_MOST_ADDED_MS: Final = 5.0
_LEAST_WORK: Final = 0.98


@dataclass(frozen=True)
class Verdict(verdict.Verdict):
    """One claim of one function with this many callers; of the idle loop, function = ""."""

    function: str = ""
    callers: int = 0


@dataclass(frozen=True)
class Choice:
    """Where ours put a function."""

    function: str
    callers: int
    chosen: str
    reason: str


def choices_of(measured: Measured) -> list[Choice]:
    """Each function's, of the last repetition."""
    found = []
    for cell, runs in measured.items():
        last = next((run.result for run in reversed(runs) if run.result.chosen), None)
        if cell.function is not None and last is not None:
            found.append(Choice(cell.function.name, cell.callers, last.chosen, last.reason))
    return found


def verdicts_of(measured: Measured) -> list[Verdict]:
    """Of every function whose contenders were measured; what was not is left out."""
    keys = dict.fromkeys((cell.function, cell.callers) for cell in measured if cell.function is not None)
    idle = _runs(measured, None, 0, "idle")
    found: list[Verdict] = []
    for function, callers in keys:
        cells = {name: _runs(measured, function, callers, name) for name in (*FIXED, OURS)}
        found += _verdicts(function, callers, {name: runs for name, runs in cells.items() if runs}, idle)
    return found


def _verdicts(
    function: Function, callers: int, cells: dict[str, Sequence[Run]], idle: Sequence[Run]
) -> Iterator[Verdict]:
    fixed = [name for name in FIXED if name in cells]
    of: Any = {"function": function.name, "callers": callers}
    if OURS in cells and len(fixed) == len(FIXED):
        best = min(fixed, key=lambda name: _p50_ms(cells[name]))
        text = f"{OURS}: p50 ÷ that of {best}, the best fixed placement"
        factor = verdict.ratio(cells[OURS], cells[best], _p50_ms)
        yield Verdict(text, *factor, "<=", _MOST_FACTOR, **of)
        text = f"{OURS}: heartbeat p99 beyond that of {best}"
        later = verdict.difference(cells[OURS], cells[best], _beat_p99_ms)
        yield Verdict(text, *later, "<=", _MOST_BEAT_MS, unit=" ms", **of)
    if "thread" in cells and idle:
        added = verdict.difference(cells["thread"], idle, _beat_p99_ms)
        yield Verdict("thread: heartbeat p99 added", *added, "<=", _MOST_ADDED_MS, unit=" ms", **of)
    if "thread" in cells and "inline" in cells and function.computes:
        work = verdict.ratio(cells["thread"], cells["inline"], _per_s)
        yield Verdict("thread: work done ÷ that of inline", *work, ">=", _LEAST_WORK, **of)


def _runs(measured: Measured, function: Function | None, callers: int, contender: str) -> Sequence[Run]:
    """Those that have something to count."""
    for cell, runs in measured.items():
        if _is(cell, function, callers, contender):
            return [run for run in runs if run.result.late_ms and (run.result.took_ms or function is None)]
    return []


def _is(cell: Cell, function: Function | None, callers: int, contender: str) -> bool:
    return (cell.function, cell.callers, cell.contender.name) == (function, callers, contender)


def _p50_ms(runs: Sequence[Run]) -> float:
    return quantile(sorted(took for run in runs for took in run.result.took_ms), 0.5)


def _beat_p99_ms(runs: Sequence[Run]) -> float:
    return quantile(sorted(late for run in runs for late in run.result.late_ms), 0.99)


def _per_s(runs: Sequence[Run]) -> float:
    return sum(len(run.result.took_ms) for run in runs) / sum(run.result.seconds for run in runs)
