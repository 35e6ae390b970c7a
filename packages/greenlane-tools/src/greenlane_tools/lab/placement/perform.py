"""`greenlane lab placement`: what is run, and what is said of it."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from greenlane.cli.output import Output
from greenlane.errors import GreenlaneError, SettingsError
from greenlane_tools.lab import processes, verdict
from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.experiment.result import Result, Table, disturbed
from greenlane_tools.lab.placement import cells
from greenlane_tools.lab.placement.cells import Cell, Measured, Row, Run, rows_of
from greenlane_tools.lab.placement.contenders import CONTENDERS, FIXED, OURS, needs_of
from greenlane_tools.lab.placement.functions import FUNCTIONS, Function, measured_amounts
from greenlane_tools.lab.statistics import enough, quantile
from greenlane_tools.page import blocks
from greenlane_tools.page.axis import LogAxis
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import milliseconds

if TYPE_CHECKING:
    from greenlane_tools.lab.placement.options import Options


# --- The CatBoost model of the function `catboost`: 500 trees of depth 6, trained once on seeded rows, kept in a
# file.


#: Changed with whatever changes the model.
_NAME: Final = "catboost-500x6-1.cbm"
_LIMIT_S: Final = 300.0
_POLL_S: Final = 0.02
_ATTEMPT: Final = "train the model of the function catboost"


def trained(folder: Path) -> Path:
    """Its file in that folder; trained in a process of its own when it is not there, some seconds.

    Raises:
        GreenlaneError: the training failed, or took too long.
    """
    found = folder.resolve() / _NAME
    if found.exists():
        return found
    with tempfile.TemporaryDirectory(prefix="gl-model-", dir=found.parent, ignore_cleanup_errors=True) as work:
        log, made = Path(work, "log"), Path(work, "model.cbm")
        with log.open("wb") as written:
            command = [sys.executable, "-m", "greenlane_tools.lab.placement.programs.train", str(made)]
            child = processes.Child(command, os.environ, written, Path(work))
            try:
                until = time.monotonic() + _LIMIT_S
                while child.running() and time.monotonic() < until:
                    checkpoint()
                    time.sleep(_POLL_S)
            finally:
                child.end()
        if not made.exists():
            last = (log.read_text(errors="replace").strip().splitlines() or ["it said nothing"])[-1]
            hint = "leave catboost out of --functions"
            raise GreenlaneError(_ATTEMPT, name="model", value=_NAME, rule=f"a trained model ({last})", hint=hint)
        made.replace(found)
    return found


# --- What is claimed of our placements, against what was measured in the same run.


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


_PACKAGES: Final = ("greenlane", "numpy", "catboost", "loky", "ray", "gunicorn", "uvloop", "gevent")
_LEAST_CALLS: Final = 20
#: Of the table, in order, with the digits that are shown.
_COLUMNS: Final[Mapping[str, int | None]] = {
    "function": None, "callers": None, "contender": None, "p50_ms": 2, "p99_ms": 2, "cpu_ms_per_job": 2,
    "heartbeat_p99_ms": 2, "bytes_in_band": None, "bytes_out_of_band": None, "samples": None, "errors": None,
}  # fmt: skip
_SAID: Final = 100
#: Below this a heartbeat's lateness is the timer's own.
_LEAST_MS: Final = 0.01


def perform(options: Options, output: Output) -> Result:
    """Runs every function under every contender."""
    loop, repetitions = options.loop, options.repetitions
    if missing := needs_of("" if loop == "asyncio" else loop):
        hint = missing.partition(": ")[2]
        raise SettingsError("--loop", loop, "one that is installed", hint, attempted="measure placements")

    def calls_of(function: Function) -> int:
        return options.calls or max(_LEAST_CALLS, round(options.seconds * 1000 / repetitions / function.about_ms))

    functions = [FUNCTIONS[name] for name in options.functions or FUNCTIONS]
    contenders = [CONTENDERS[name] for name in options.contenders or CONTENDERS]
    every = cells.cells_of(functions, contenders, options.callers, loop, calls_of)
    for said in dict.fromkeys(f"{cell.contender.name}: {cell.missing}" for cell in every if cell.missing):
        output.say(f"skipped {said}")
    there = [cell for cell in every if not cell.missing]
    total = len(there) * repetitions
    minutes = cells.expected_all_s(every, repetitions) / 60
    output.say(f"{total} run{'s' * (total != 1)} on {loop}, about {minutes:.0f} min on an idle machine")

    def progress(number: int, cell: cells.Cell) -> None:
        what = "a heartbeat alone" if cell.function is None else f"{cell.function.name}, {_by(cell.callers)}"
        output.say(f"{number + 1}/{total} {cell.contender.name}: {what}, {cell.calls} calls")

    asked = {cell.function.name for cell in there if cell.function is not None}
    amounts = measured_amounts(asked, str(trained(options.out)) if "catboost" in asked else "")
    measured = cells.measure(
        every, amounts, loop=loop, repetitions=repetitions, seed=options.seed, progress=progress
    )  # fmt: skip
    told = {"loop": loop, "iterations": amounts.iterations, "passes": amounts.passes}
    return shown(measured, {**about(_PACKAGES), **told})


def shown(measured: cells.Measured, environment: Mapping[str, object]) -> Result:
    """What is said of the runs."""
    rows, claims, choices = rows_of(measured), verdicts_of(measured), choices_of(measured)
    chosen = [f"{one.function}, {_by(one.callers)}: greenlane chose {one.chosen}: {one.reason}" for one in choices]
    placed = [replace(one, text=f"{one.function}, {_by(one.callers)}: {one.text}") for one in claims]
    nothing = "" if claims else "Nothing is claimed of what was run: ours beside inline, thread and process is."
    return Result(
        "lab.placement", "Where CPU work beside a loop runs best", rows,
        [Table(
            "All figures", list(map(_shown, rows)), names=3, notes=chosen,
            about="cpu_ms_per_job: of all processes, workers and daemons too, heartbeat included. Bytes: of a call's "
            "arguments and its result, pickled (in band) and copied as they lie (out of band).",
        )],
        environment, lead=nothing, claims=placed, warnings=_warnings(rows),
        figures=[
            _charts("Latency", rows, "p50_ms", "p99_ms", "p50 (dot) to p99, from when the caller was free to call."),
            _charts("Heartbeat", rows, "heartbeat_p99_ms", "heartbeat_p99_ms", "p99: how late a 1 ms sleep came back."),
        ],
        contenders=[f"{name}: {one.said}" for some in (FUNCTIONS, CONTENDERS) for name, one in some.items()],
        method="Each run is a process of its own with a coroutine that sleeps 1 ms, and callers that call again as "
        "soon as they have their answer; a call's time begins there, so that waiting for one's turn on a busy loop "
        "counts. Contenders of one function run one after the other, in another order each repetition, with the same "
        "number of calls. It shows neither arrivals nor I/O: `greenlane lab run` does.",
        samples=lambda: _samples(measured), more={"verdicts": [_judged(one) for one in claims]},
        exit_code=0 if any(run.result.late_ms for runs in measured.values() for run in runs) else 1,
    )  # fmt: skip


def _shown(row: Row) -> dict[str, object]:
    """Rounded, with what is missing or was chosen at the end of the line."""
    cells = {
        name: row[name] if digits is None or row[name] is None else round(row[name], digits)
        for name, digits in _COLUMNS.items()
    }
    return cells | {"function": row["function"] or "-", "said": (row["missing"] or row["chosen"])[:_SAID]}


def _warnings(rows: Sequence[Row]) -> list[str]:
    found = disturbed(max((row["others_cores"] or 0.0 for row in rows), default=0.0))
    if any(0 < row["samples"] < enough(0.99) for row in rows if row["function"]):
        found.append(f"fewer than {enough(0.99)} calls in some rows: their p99 is rough; more --seconds or --calls")
    if any(row["repetitions"] == 1 for row in rows):
        found.append("one repetition: a difference of some percent means nothing; --repetitions 5 gives intervals")
    return found


def _judged(one: Any) -> dict[str, object]:
    found = {name: getattr(one, name) for name in ("function", "callers", "text", "measured", "relation", "target")}
    interval = (None, None) if one.low != one.low else (one.low, one.high)
    return {**found, "low": interval[0], "high": interval[1], "holds": one.holds}


def _samples(measured: cells.Measured) -> Mapping[str, Sequence[object]]:
    """A row a call (`took_ms`) and a row a heartbeat (`late_ms`), each with its cell and repetition."""
    names = ("function", "contender", "callers", "repetition", "quantity", "ms")
    found = [
        ("" if cell.function is None else cell.function.name, cell.contender.name, cell.callers, number, quantity, ms)
        for cell, runs in measured.items()
        for number, run in enumerate(runs)
        for quantity in ("took_ms", "late_ms")
        for ms in getattr(run.result, quantity)
    ]
    return {name: [row[place] for row in found] for place, name in enumerate(names)}


def _charts(heading: str, rows: Sequence[Row], middle: str, high: str, about: str) -> Html:
    panels = {}
    for callers in dict.fromkeys(row["callers"] for row in rows if row["function"]):
        some = [row for row in rows if row["callers"] == callers and row["function"] and row[high] is not None]
        if some:
            panels[_by(callers)] = blocks.wide(
                _chart(f"{heading}, {_by(callers)}", some, lambda row: (row[middle], row[high]))
            )
    return blocks.section(heading, blocks.tabs(heading.lower(), panels), about=about) if panels else Html("")


def _chart(title: str, rows: Sequence[Row], ends: Callable[[Row], tuple[float, float]]) -> Html:
    groups: dict[str, list[Whisker]] = {}
    for row in rows:
        at, high = (max(value, _LEAST_MS) for value in ends(row))
        aside = "" if at == high else f"p99 {milliseconds(high)}"
        bar = Whisker(row["contender"], at, at, high, milliseconds(at), aside, row["contender"] == OURS)
        groups.setdefault(row["function"], []).append(bar)
    bars = [bar for group in groups.values() for bar in group]
    axis = LogAxis(min(bar.low for bar in bars), max(bar.high for bar in bars), LEFT, RIGHT)
    return whiskers(groups, axis, title, milliseconds)


def _by(callers: int) -> str:
    return f"{callers} caller{'s' * (callers != 1)}"
