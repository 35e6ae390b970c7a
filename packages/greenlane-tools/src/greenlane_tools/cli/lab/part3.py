"""`greenlane lab part3`: Lyft's benchmark of green threads, under seven runtimes and by three clocks."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output
from greenlane.errors import GreenlaneError, SettingsError
from greenlane.settings.refusal import nearest
from greenlane_tools.lab.written import made

if TYPE_CHECKING:
    from greenlane_tools.lab.arguments import Values
    from greenlane_tools.lab.part3.cells import Cell, Measured
    from greenlane_tools.lab.part3.presets import Beside, Preset
    from greenlane_tools.lab.part3.rows import Row
    from greenlane_tools.lab.part3.runtimes import Runtime

__all__ = ["COMMAND"]

_ATTEMPT: Final = "run part 3"
_HINT: Final = "greenlane lab part3 --help lists every option"
#: What a preset sets and nobody else may.
_SHAPE: Final = ("cpu_ms", "network_ms", "calls")
_REQUESTS: Final = 500
#: Names are checked against those of `greenlane_tools.lab.part3`, which is loaded only when it runs.
_RUNTIMES: Final = "gevent, asyncio, uvloop, threads, threads-0.5ms, greenlane, node"
_PRESETS: Final = "lyft-5-55, lyft-50-150, lyft-5x11, serial-parallel, cpu-only"


def _declare(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--preset", metavar="NAME", help=f"a run of the article beside what it published: {_PRESETS}")
    add("--cpu-ms", metavar="MS", help="CPU of a request, in calls + 1 bursts (5)")
    add("--network-ms", metavar="MS", help="network of a request, all its calls together (55)")
    add("--calls", metavar="K", help="network calls of a request (1)")
    add("--green-threads", metavar="N,…", help="requests in progress at a time, one number or several (1,5,50)")
    add("--requests", metavar="N", help=f"requests of a run ({_REQUESTS})")
    add("--runtimes", metavar="NAME,…", help=f"some of {_RUNTIMES} (all; a preset has its own)")
    add("--repetitions", metavar="N", help="runs of each, in turns; pooled (1)")
    add("--seed", metavar="N", help="of the order of the runs (1)")
    add("--json", action="store_true", help="one JSON object on stdout in place of the tables")
    add("--out", type=Path, metavar="FOLDER", help="also write the page, the rows and every request there")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    with needed("lab", _ATTEMPT):
        from greenlane_tools.lab.interruption import checkpoint, ended_by_signals
        from greenlane_tools.lab.part3 import cells, rows, shown
    preset = _preset(arguments)
    chosen = _cells(arguments, preset, output)
    repetitions = _whole("--repetitions", _given(arguments.repetitions, "1"), 1, 100)
    seed = _whole("--seed", _given(arguments.seed, "1"), 0, 2**31)
    if arguments.out is not None:
        made(arguments.out, _ATTEMPT)
    every = cells.with_baselines(chosen)
    total = len(every) * repetitions
    output.say(f"{total} run{'s' * (total > 1)}, about {cells.expected_all_s(every, repetitions):.0f} s")

    def progress(number: int, cell: Cell) -> None:
        checkpoint()
        places = shown.places(cell.green_threads)
        output.say(f"{number + 1}/{total} {cell.runtime.name}: {cell.shape.said()}, {places}, {cell.requests} requests")

    yields = preset.yields if preset else 0
    try:
        with ended_by_signals():
            measured = cells.measure(every, repetitions=repetitions, seed=seed, yields=yields, progress=progress)
    except KeyboardInterrupt:
        output.say("stopped: the program was ended; nothing is kept of the runs so far")
        return 130
    found = rows.rows_of(measured)
    known = preset.beside(found) if preset else []
    try:
        _write(arguments.out, preset, found, known, measured, output)
    finally:  # a full disk does not cost what was measured
        if arguments.json:
            output.document("lab.part3", _with_known(found, known))
        else:
            _text(preset, found, known, measured, output)
        for warning in shown.warnings(found):
            output.say(f"warning: {warning}")
    return 0


def _preset(arguments: argparse.Namespace) -> Preset | None:
    from greenlane_tools.lab.part3.presets import PRESETS

    name = arguments.preset
    if name is None:
        return None
    if name not in PRESETS:
        hint = nearest(name, PRESETS) or _HINT
        raise SettingsError("--preset", name, f"one of {', '.join(PRESETS)}", hint, attempted=_ATTEMPT)
    for option in _SHAPE:
        if getattr(arguments, option) is not None:
            flag = f"--{option.replace('_', '-')}"
            rule = "left out beside --preset, which sets it"
            raise SettingsError(flag, getattr(arguments, option), rule, f"drop {flag} or --preset", attempted=_ATTEMPT)
    return PRESETS[name]


def _cells(arguments: argparse.Namespace, preset: Preset | None, output: Output) -> list[Cell]:
    from greenlane_tools.lab.part3.cells import Cell
    from greenlane_tools.lab.part3.presets import cells_of
    from greenlane_tools.lab.part3.runtimes import RUNTIMES, Shape

    runtimes = _runtimes(arguments.runtimes, list(preset.runtimes if preset else RUNTIMES), output)
    places = _places(arguments.green_threads) if arguments.green_threads is not None else None
    requests = _whole("--requests", arguments.requests, 1, 1_000_000) if arguments.requests is not None else None
    if preset is not None:
        return cells_of(preset, runtimes, requests, places)
    cpu_ms = _number("--cpu-ms", _given(arguments.cpu_ms, "5"), 10_000)
    network_ms = _number("--network-ms", _given(arguments.network_ms, "55"), 60_000)
    calls = _whole("--calls", _given(arguments.calls, "1"), 0, 1_000)
    if arguments.network_ms is not None and network_ms and not calls:
        rule = f"at least 1 beside --network-ms {network_ms:g}"
        raise SettingsError("--calls", "0", rule, "drop --calls or --network-ms", attempted=_ATTEMPT)
    if not cpu_ms + network_ms:
        raise SettingsError("--cpu-ms", "0", "above 0 beside --network-ms 0", _HINT, attempted=_ATTEMPT)
    shape = Shape(cpu_ms, network_ms if calls else 0.0, calls)
    return [
        Cell(runtime, shape, number, requests or _REQUESTS) for number in places or (1, 5, 50) for runtime in runtimes
    ]


def _runtimes(given: str | None, default: list[str], output: Output) -> list[Runtime]:
    """Those that this machine has; others are named on stderr."""
    from greenlane_tools.lab.part3.runtimes import RUNTIMES, missing

    names = default if given is None else [part.strip() for part in given.split(",")]
    unknown = next((name for name in names if name not in RUNTIMES), None)
    if unknown is not None or len(set(names)) < len(names):
        rule = f"some of {', '.join(RUNTIMES)}, each once, with commas"
        hint = nearest(unknown, RUNTIMES) if unknown else ""
        raise SettingsError("--runtimes", given, rule, hint or _HINT, attempted=_ATTEMPT)
    lacking = {name: missing(RUNTIMES[name]) for name in names}
    for name, why in lacking.items():
        if why:
            output.say(f"skipped {name}: {why}")
    found = [RUNTIMES[name] for name, why in lacking.items() if not why]
    if not found:
        hint = "leave --runtimes out: asyncio and threads need nothing but CPython"
        raise SettingsError("--runtimes", ",".join(names), "one that is installed", hint, attempted=_ATTEMPT)
    return found


def _places(text: str) -> list[int]:
    found = [_whole("--green-threads", part.strip(), 1, 2_000) for part in text.split(",")]
    if len(set(found)) < len(found):
        raise SettingsError("--green-threads", text, "each number once", _HINT, attempted=_ATTEMPT)
    return found


def _given(text: str | None, default: str) -> str:
    return default if text is None else text


def _whole(flag: str, text: str, low: int, high: int) -> int:
    return _values().whole(flag, text, low, high)


def _number(flag: str, text: str, high: float) -> float:
    return _values().number(flag, text, 0, high)


def _values() -> Values:
    from greenlane_tools.lab.arguments import Values

    return Values(_ATTEMPT, _HINT)


def _write(
    folder: Path | None,
    preset: Preset | None,
    found: list[Row],
    known: list[Beside],
    measured: Measured,
    output: Output,
) -> None:
    if folder is None:
        return
    from greenlane_tools.lab.part3.page import page

    with needed("lab", _ATTEMPT):
        from greenlane_tools.lab.part3.cells import keep
    try:
        keep(folder / "requests.parquet", measured)
        with (folder / "rows.json").open("w", encoding="utf-8") as out:
            Output(out, output.err).document("lab.part3", _with_known(found, known))
        (folder / "page.html").write_text(page(preset, found, known, measured), encoding="utf-8")
    except OSError as error:
        rule = f"a folder that can be written ({error.strerror})"
        raise GreenlaneError(_ATTEMPT, name="--out", value=str(folder), rule=rule, hint="name another") from None
    output.say(f"page: {folder / 'page.html'}")


def _with_known(found: list[Row], known: list[Beside]) -> list[Row]:
    """Rows with what is known beforehand of them: `published_<field>`, and how far off the measured one is."""
    named = {"published": "published", "N/X": "demanded", "model": "model"}
    complete = [dict(row) for row in found]
    for one in known:
        shape = one.known.shape
        key = ("gevent", one.known.green_threads, shape.calls, shape.together)
        for row in complete:
            if (row["contender"], row["green_threads"], row["calls"], row["together"]) == key:
                row[f"{named[one.known.source]}_{one.known.field}"] = one.known.value
                row[f"off_{one.known.field.removesuffix('_frac')}_frac"] = one.off_frac
    return complete


def _text(preset: Preset | None, found: list[Row], known: list[Beside], measured: Measured, output: Output) -> None:
    from greenlane_tools.lab.part3 import shown

    tables = [shown.beside(known), shown.measured_rows(found), shown.laws(found), shown.switches(found)]
    for table in tables:
        if table.rows:
            output.line(output.styled(table.heading, "bold"))
            output.table(table.rows, table.columns)
            output.line()
    asked = [cell for cell in measured if not cell.baseline]
    output.line(output.styled("How often each latency came", "bold"))
    for cell in asked:
        for line in shown.histograms(cell, measured):
            output.line(line)
    told = shown.told(asked)
    if told is not None:
        output.line()
        for line in shown.longest_of(told, measured):
            output.line(line)
    if preset is not None:
        output.line()
        output.line(output.styled("What the published figures hide", "bold"))
        for said in preset.hides:
            output.line(f"- {said}")


COMMAND: Final = Command(
    "part3", "run Lyft's benchmark of green threads under seven runtimes", _declare, _run,
    examples=(
        "greenlane lab part3 --preset lyft-5-55",
        "greenlane lab part3 --cpu-ms 5 --network-ms 55 --runtimes gevent,threads",
    ),
)  # fmt: skip
