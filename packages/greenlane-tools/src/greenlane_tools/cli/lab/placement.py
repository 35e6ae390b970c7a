"""`greenlane lab placement`: where CPU work beside a loop runs best, function by function."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output
from greenlane.errors import GreenlaneError, SettingsError
from greenlane.settings.refusal import nearest
from greenlane_tools.lab.written import made

if TYPE_CHECKING:
    from greenlane_tools.lab.placement.cells import Cell, Measured
    from greenlane_tools.lab.placement.functions import Function

__all__ = ["COMMAND"]

_ATTEMPT: Final = "measure placements"
_HINT: Final = "greenlane lab placement --help lists every option"
#: Names are checked against those of `greenlane_tools.lab.placement`, which is loaded only when it runs.
_FUNCTIONS: Final = "json, numpy, catboost, python, sleep"
_CONTENDERS: Final = (
    "inline, to-thread, to-thread-0.5ms, process-pool, process-pool-tuned, loky, dirty, ray, thread, process, greenlane"
)
_LEAST_CALLS: Final = 20
#: Told of a result.
_PACKAGES: Final = ("greenlane", "numpy", "catboost", "loky", "ray", "gunicorn", "uvloop", "gevent")


def _declare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--functions", metavar="NAME,…", help=f"some of {_FUNCTIONS} (all)")
    add("--contenders", metavar="NAME,…", help=f"some of {_CONTENDERS} (all)")
    add("--callers", metavar="N,…", help="callers at a time, one number or several (4,1)")
    add("--loop", metavar="NAME", help="asyncio, uvloop or gevent (asyncio)")
    add("--seconds", metavar="S", help=f"of calls per cell, over all repetitions; at least {_LEAST_CALLS} calls (3)")
    add("--calls", metavar="N", help="calls of a repetition, in place of --seconds; the same for every contender")
    add("--repetitions", metavar="N", help="runs of each cell, in turns; pooled (3)")
    add("--seed", metavar="N", help="of the order of the runs (1)")
    add("--json", action="store_true", help="one JSON object on stdout in place of the tables")
    add(
        "--out", type=Path, metavar="FOLDER", default=Path("out/lab/placement"),
        help="page, rows, every call, and the model of catboost (out/lab/placement)",
    )  # fmt: skip


def _run(arguments: argparse.Namespace, output: Output) -> int:
    with needed("lab", _ATTEMPT):
        import numpy  # noqa: F401 - what the functions compute with

        from greenlane_tools.lab.interruption import checkpoint, ended_by_signals
        from greenlane_tools.lab.placement import cells, functions, model
    loop, repetitions = _loop(arguments.loop), _whole("--repetitions", arguments.repetitions, 3, 1, 100)
    seed = _whole("--seed", arguments.seed, 1, 0, 2**31)
    every = _cells(arguments, loop, repetitions)
    made(arguments.out, _ATTEMPT)
    for said in dict.fromkeys(f"{cell.contender.name}: {cell.missing}" for cell in every if cell.missing):
        output.say(f"skipped {said}")
    there = [cell for cell in every if not cell.missing]
    total = len(there) * repetitions
    minutes = cells.expected_all_s(every, repetitions) / 60
    output.say(f"{total} run{'s' * (total != 1)} on {loop}, about {minutes:.0f} min on an idle machine")

    def progress(number: int, cell: Cell) -> None:
        checkpoint()
        what = "a heartbeat alone" if cell.function is None else f"{cell.function.name}, {_by(cell.callers)}"
        output.say(f"{number + 1}/{total} {cell.contender.name}: {what}, {cell.calls} calls")

    try:
        with ended_by_signals():
            asked = {cell.function.name for cell in there if cell.function is not None}
            file = str(model.trained(arguments.out)) if "catboost" in asked else ""
            amounts = functions.measured_amounts(asked, file)
            measured = cells.measure(
                every, amounts, loop=loop, repetitions=repetitions, seed=seed, progress=progress
            )  # fmt: skip
    except KeyboardInterrupt:
        output.say("stopped: all processes ended; nothing is kept of the runs so far")
        return 130
    _report(arguments, measured, {"loop": loop, "iterations": amounts.iterations, "passes": amounts.passes}, output)
    return 0 if any(run.result.late_ms for runs in measured.values() for run in runs) else 1


def _cells(arguments: argparse.Namespace, loop: str, repetitions: int) -> list[Cell]:
    from greenlane_tools.lab.placement.cells import cells_of
    from greenlane_tools.lab.placement.contenders import CONTENDERS
    from greenlane_tools.lab.placement.functions import FUNCTIONS

    functions = _chosen("--functions", arguments.functions, FUNCTIONS)
    contenders = _chosen("--contenders", arguments.contenders, CONTENDERS)
    callers = _callers(arguments.callers or "4,1")
    seconds = _number("--seconds", arguments.seconds, 3.0, 3_600.0)
    calls = _whole("--calls", arguments.calls, 0, 1, 1_000_000)

    def calls_of(function: Function) -> int:
        return calls or max(_LEAST_CALLS, round(seconds * 1000 / repetitions / function.about_ms))

    return cells_of(
        [FUNCTIONS[name] for name in functions], [CONTENDERS[name] for name in contenders], callers, loop, calls_of
    )


def _chosen(flag: str, text: str | None, known: Mapping[str, object]) -> list[str]:
    names = list(known) if text is None else [part.strip() for part in text.split(",")]
    unknown = next((name for name in names if name not in known), None)
    if unknown is not None or len(set(names)) < len(names):
        rule = f"some of {', '.join(known)}, each once, with commas"
        hint = nearest(unknown, known) if unknown else ""
        raise SettingsError(flag, text, rule, hint or _HINT, attempted=_ATTEMPT)
    return names


def _loop(text: str | None) -> str:
    from greenlane_tools.lab.placement.contenders import LOOPS, needs_of

    name = text or "asyncio"
    if name not in LOOPS:
        hint = nearest(name, LOOPS) or _HINT
        raise SettingsError("--loop", name, f"one of {', '.join(LOOPS)}", hint, attempted=_ATTEMPT)
    if missing := needs_of("" if name == "asyncio" else name):
        raise SettingsError("--loop", name, "one that is installed", missing.partition(": ")[2], attempted=_ATTEMPT)
    return name


def _callers(text: str) -> list[int]:
    found = [_whole("--callers", part.strip(), 0, 1, 1_000) for part in text.split(",")]
    if len(set(found)) < len(found):
        raise SettingsError("--callers", text, "each number once", _HINT, attempted=_ATTEMPT)
    return found


def _whole(flag: str, text: str | None, default: int, low: int, high: int) -> int:
    from greenlane_tools.lab.arguments import Values

    return default if text is None else Values(_ATTEMPT, _HINT).whole(flag, text, low, high)


def _number(flag: str, text: str | None, default: float, high: float) -> float:
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = 0.0
    if 0 < value <= high:
        return value
    raise SettingsError(flag, text, f"a number above 0, up to {high:g}", _HINT, attempted=_ATTEMPT)


def _report(arguments: argparse.Namespace, measured: Measured, told: Mapping[str, object], output: Output) -> None:
    from greenlane_tools.lab.environment import about
    from greenlane_tools.lab.placement import rows, tables, verdicts
    from greenlane_tools.lab.placement.kept import keep
    from greenlane_tools.lab.placement.page import page

    found, environment = rows.rows_of(measured), {**about(_PACKAGES), **told}
    choices, judged = verdicts.choices_of(measured), verdicts.verdicts_of(measured)
    document = {
        "schema": "greenlane.lab.placement/1",
        "environment": environment,
        "rows": found,
        "verdicts": [_judged(one) for one in judged],
    }
    folder: Path = arguments.out
    try:
        with needed("lab", _ATTEMPT):
            keep(folder / "samples.parquet", measured)
        (folder / "rows.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        (folder / "page.html").write_text(page(found, choices, judged, environment), encoding="utf-8")
    except OSError as error:
        rule = f"a folder that can be written ({error.strerror})"
        raise GreenlaneError(_ATTEMPT, name="--out", value=str(folder), rule=rule, hint="name another") from None
    finally:  # a full disk does not cost what was measured
        if arguments.json:
            output.line(json.dumps(document, indent=1))
        else:
            output.table(tables.shown_rows(found), tables.COLUMNS)
            _tell(choices, judged, output)
        for warning in tables.warnings(found):
            output.say(f"warning: {warning}")
    output.say(f"page: {folder / 'page.html'}")


def _judged(one: Any) -> dict[str, object]:
    found = {name: getattr(one, name) for name in ("function", "callers", "text", "measured", "relation", "target")}
    interval = (None, None) if one.low != one.low else (one.low, one.high)
    return {**found, "low": interval[0], "high": interval[1], "holds": one.holds}


def _tell(choices: Iterable[Any], judged: Iterable[Any], output: Output) -> None:
    from greenlane_tools.lab.placement.tables import place

    judged = list(judged)
    for place_said in dict.fromkeys(place(one) for one in (*choices, *judged)):
        output.line()
        output.line(output.styled(place_said, "bold"))
        for choice in (one for one in choices if place(one) == place_said):
            output.line(f"  greenlane chose {choice.chosen}: {choice.reason}")
        for one in (one for one in judged if place(one) == place_said):
            output.line("  " + output.styled(one.said(), "green" if one.holds else "red"))


def _by(callers: int) -> str:
    return f"{callers} caller{'s' * (callers != 1)}"


COMMAND: Final = Command(
    "placement", "show where CPU work beside a loop runs best", _declare, _run,
    examples=(
        "greenlane lab placement --functions json --seconds 1",
        "greenlane lab placement --loop uvloop --out out/lab/placement",
    ),
)  # fmt: skip
