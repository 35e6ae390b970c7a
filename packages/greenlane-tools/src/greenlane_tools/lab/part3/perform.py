"""`greenlane lab part3`: what is run, and what is said of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from greenlane.cli.output import Output
from greenlane.errors import SettingsError
from greenlane_tools.lab.environment import about
from greenlane_tools.lab.experiment.result import Result
from greenlane_tools.lab.part3 import shown
from greenlane_tools.lab.part3.cells import Cell, Measured, expected_all_s, measure, samples, with_baselines
from greenlane_tools.lab.part3.presets import PRESETS, Beside, Preset, cells_of
from greenlane_tools.lab.part3.rows import CLOCKS, Row, latencies_ms, longest, rows_of
from greenlane_tools.lab.part3.runtimes import RUNTIMES, Runtime, Shape, missing
from greenlane_tools.lab.part3.shown import (
    LANE_COLOURS,
    hidden,
    lanes,
    latency_curves,
    lines,
    places,
    speedup_curves,
    told,
    warnings,
)
from greenlane_tools.page import blocks
from greenlane_tools.page.charts.histogram import histogram
from greenlane_tools.page.frame import Scale
from greenlane_tools.page.html import Html, element
from greenlane_tools.page.quantities import amount, milliseconds

if TYPE_CHECKING:
    from greenlane_tools.lab.part3.options import Options

_ATTEMPT: Final = "run part 3"
_HINT: Final = "greenlane lab part3 --help lists every option"
_REQUESTS: Final = 500
_SOURCES: Final = {"published": "published", "N/X": "demanded", "model": "model"}


def perform(options: Options, output: Output) -> Result:
    """Runs every runtime with every number of green threads."""
    preset = None if options.preset is None else PRESETS[options.preset]
    chosen = _cells(options, preset, output)
    every = with_baselines(chosen)
    total = len(every) * options.repetitions
    output.say(f"{total} run{'s' * (total > 1)}, about {expected_all_s(every, options.repetitions):.0f} s")

    def progress(number: int, cell: Cell) -> None:
        held = places(cell.green_threads)
        output.say(f"{number + 1}/{total} {cell.runtime.name}: {cell.shape.said()}, {held}, {cell.requests} requests")

    measured = measure(
        every, repetitions=options.repetitions, seed=options.seed, yields=preset.yields if preset else 0,
        progress=progress,
    )  # fmt: skip
    return result_of(preset, measured)


def result_of(preset: Preset | None, measured: Measured) -> Result:
    """What is said of the runs; each runtime and shape has its baseline (`with_baselines`)."""
    rows = rows_of(measured)
    known = preset.beside(rows) if preset else []
    cells = [cell for cell in measured if not cell.baseline]
    sweeps = [_sweep(shape, rows) for shape in dict.fromkeys(cell.shape for cell in cells)]
    return Result(
        "lab.part3", f"Green threads: {preset.said if preset else cells[0].shape.said()}", _with_known(rows, known),
        [shown.beside(known), shown.measured_rows(rows), shown.laws(rows), shown.switches(rows)],
        about(("greenlane", "gevent", "uvloop")), lead=_conclusion(cells, rows), warnings=list(warnings(rows)),
        text=list(_text(preset, cells, measured)),
        figures=[_hides(preset), *sweeps, _histograms(cells, measured), _longest(cells, measured)],
        contenders=list(dict.fromkeys(
            f"{cell.runtime.name}: {cell.runtime.said} ({runs[0].runtime})" for cell, runs in measured.items()
        )),
        method="Each run is a process of its own; runs take turns in random order. CPU work is a number of loop "
        "iterations, counted against the thread's CPU clock when the process starts: work that ends when the wall "
        "clock says so shrinks on a busy machine, and flatters it. The network is a timer. Constant work and a "
        "closed loop: no real service has either, see the dashed lines for what variance costs.",
        samples=lambda: samples(measured),
    )  # fmt: skip


def _cells(options: Options, preset: Preset | None, output: Output) -> list[Cell]:
    runtimes = _runtimes(options.runtimes or tuple(preset.runtimes if preset else RUNTIMES), output)
    if preset is not None:
        for name in ("cpu_ms", "network_ms", "calls"):
            if (given := getattr(options, name)) is not None:
                flag = f"--{name.replace('_', '-')}"
                rule, hint = "left out beside --preset, which sets it", f"drop {flag} or --preset"
                raise SettingsError(flag, f"{given:g}", rule, hint, attempted=_ATTEMPT)
        return cells_of(preset, runtimes, options.requests, options.green_threads)
    cpu_ms, network_ms, calls = (
        default if given is None else given
        for given, default in ((options.cpu_ms, 5.0), (options.network_ms, 55.0), (options.calls, 1))
    )
    if options.network_ms and not calls:
        rule = f"at least 1 beside --network-ms {network_ms:g}"
        raise SettingsError("--calls", "0", rule, "drop --calls or --network-ms", attempted=_ATTEMPT)
    if not cpu_ms + network_ms:
        raise SettingsError("--cpu-ms", "0", "above 0 beside --network-ms 0", _HINT, attempted=_ATTEMPT)
    shape = Shape(cpu_ms, network_ms if calls else 0.0, int(calls))
    return [
        Cell(runtime, shape, number, options.requests or _REQUESTS)
        for number in options.green_threads or (1, 5, 50)
        for runtime in runtimes
    ]


def _runtimes(names: Sequence[str], output: Output) -> list[Runtime]:
    """Those that this machine has; others are named on stderr."""
    lacking = {name: missing(RUNTIMES[name]) for name in names}
    for name, why in lacking.items():
        if why:
            output.say(f"skipped {name}: {why}")
    found = [RUNTIMES[name] for name, why in lacking.items() if not why]
    if not found:
        hint = "leave --runtimes out: asyncio and threads need nothing but CPython"
        raise SettingsError("--runtimes", ",".join(names), "one that is installed", hint, attempted=_ATTEMPT)
    return found


def _with_known(found: list[Row], known: Sequence[Beside]) -> list[Row]:
    """Rows with what is known beforehand of them: `published_<field>`, and how far off the measured one is."""
    complete = [dict(row) for row in found]
    for one in known:
        for row in complete:
            key = row["contender"], row["green_threads"]
            if key == ("gevent", one.known.green_threads) and _is(row, one.known.shape):
                row[f"{_SOURCES[one.known.source]}_{one.known.field}"] = one.known.value
                row[f"off_{one.known.field.removesuffix('_frac')}_frac"] = one.off_frac
    return complete


def _text(preset: Preset | None, cells: Sequence[Cell], measured: Measured) -> Iterator[str]:
    yield "How often each latency came"
    for cell in cells:
        yield from shown.histograms(cell, measured)
    if (cell_told := told(cells)) is not None:
        yield ""
        yield from shown.longest_of(cell_told, measured)
    if preset is not None:
        yield from ("", "What the published figures hide", *(f"- {said}" for said in preset.hides))


def _hides(preset: Preset | None) -> Html:
    if preset is None:
        return Html("")
    said = element("ul", *(element("li", said) for said in preset.hides), class_="findings")
    return blocks.section("What the published figures hide", said)


def _conclusion(cells: Sequence[Cell], rows: Sequence[Row]) -> str:
    most = max(rows, key=lambda row: (row["green_threads"], row["contender"] == "gevent"))
    handler, arrival = (most[f"{clock}_p50_ms"] for clock in ("handler", "arrival"))
    return (
        f"{most['contender']} with {most['green_threads']} in progress: {amount(most['done_per_s'])} a second, "
        f"{amount(most['speedup'])} times one at a time. Its handlers measure {handler:.0f} ms at the median; "
        f"from the arrival it is {arrival:.0f} ms."
    )


def _sweep(shape: Shape, rows: Sequence[Row]) -> Html:
    found = [row for row in rows if _is(row, shape)]
    if len({row["green_threads"] for row in found}) < 2:
        return Html("")
    return blocks.section(
        f"{shape.said()}: more green threads",
        blocks.figure("Speed-up", blocks.wide(speedup_curves(found, shape))),
        blocks.figure(
            "Latency at the median", blocks.wide(latency_curves(found, shape)), "from the arrival: what callers feel"
        ),
        blocks.figure(
            "Latency of the slowest hundredth",
            blocks.wide(latency_curves(found, shape, share="p99")),
            "p99, from the arrival",
        ),
        blocks.figure(
            "The median by the handler's clock",
            blocks.wide(latency_curves(found, shape, "handler")),
            "as in the article's graphs",
        ),
        about="Dashed: what nothing can exceed or go below, and exact mean value analysis, which is right for work "
        "that varies (exponential bursts). Constant work lies between. Upright: the knee, (C+S)/C.",
    )


def _histograms(cells: Sequence[Cell], measured: Measured) -> Html:
    panels = {}
    for cell in sorted(cells, key=lambda cell: -cell.green_threads):
        requests = [request for run in measured[cell] for request in run.requests]
        series = {clock: latencies_ms(requests, clock) for clock in CLOCKS}
        chart = histogram(series, f"latencies of {cell.runtime.name}", Scale("latency", milliseconds), strong="arrival")
        mixed = f", {cell.shape.said()}" if len({each.shape for each in cells}) > 1 else ""
        panels[f"{cell.runtime.name}, N = {cell.green_threads}{mixed}"] = blocks.wide(chart)
    return blocks.section(
        "One run, three clocks",
        blocks.tabs("clocks", panels),
        about="handler: from its first instruction. spawn: from when its green thread was made. arrival: from when the "
        "request before it in its place had ended, which is when a waiting caller would have sent it.",
    )


def _longest(cells: Sequence[Cell], measured: Measured) -> Html:
    cell = told(cells)
    if cell is None:
        return Html("")
    run = measured[cell][-1]
    request = longest(run)
    return blocks.section(
        f"The longest request: {cell.runtime.name} with {places(cell.green_threads)}",
        blocks.legend(LANE_COLOURS),
        blocks.wide(lanes(run, request.number)),
        blocks.details("as the article prints it", element("pre", "\n".join(lines(run)))),
        about=f"{hidden(run)}. Times since its place was free.",
    )


def _is(row: Row, shape: Shape) -> bool:
    given = (shape.cpu_ms, shape.network_ms, shape.calls, shape.together)
    return (row["set_cpu_ms"], row["set_network_ms"], row["calls"], row["together"]) == given
