"""The page of a run: published beside measured, sweeps with theory drawn in, histograms, the longest request."""

from __future__ import annotations

from collections.abc import Sequence

from greenlane_tools.lab.part3.cells import Cell, Measured
from greenlane_tools.lab.part3.charts import LANE_COLOURS, hidden, lanes, latency_curves, lines, speedup_curves
from greenlane_tools.lab.part3.presets import Beside, Preset
from greenlane_tools.lab.part3.rows import CLOCKS, Row, latencies_ms, longest
from greenlane_tools.lab.part3.runtimes import Shape
from greenlane_tools.lab.part3.shown import places, told, warnings
from greenlane_tools.page import blocks
from greenlane_tools.page.charts.curves import Scale
from greenlane_tools.page.charts.histogram import histogram
from greenlane_tools.page.document import document
from greenlane_tools.page.html import Html, element
from greenlane_tools.page.quantities import amount, milliseconds

__all__ = ["page"]


def page(preset: Preset | None, rows: Sequence[Row], known: Sequence[Beside], measured: Measured) -> Html:
    """The whole page; each runtime and shape has its baseline (`with_baselines`)."""
    cells = [cell for cell in measured if not cell.baseline]
    title = f"Green threads: {preset.said if preset else cells[0].shape.said()}"
    header = [element("h1", title), blocks.paragraph(_conclusion(cells, rows), "lead")]
    header += [blocks.paragraph(f"{said[0].upper()}{said[1:]}.", "warning") for said in warnings(rows)]
    sections = [
        _known(preset, known),
        *(_sweep(shape, rows) for shape in dict.fromkeys(cell.shape for cell in cells)),
        _histograms(cells, measured),
        _longest(cells, measured),
        _rows(rows),
        _method(measured),
    ]
    return document(title, header, [section for section in sections if section])


def _conclusion(cells: Sequence[Cell], rows: Sequence[Row]) -> str:
    most = max(rows, key=lambda row: (row["green_threads"], row["contender"] == "gevent"))
    handler, arrival = (most[f"{clock}_p50_ms"] for clock in ("handler", "arrival"))
    return (
        f"{most['contender']} with {most['green_threads']} in progress: {amount(most['done_per_s'])} a second, "
        f"{amount(most['speedup'])} times one at a time. Its handlers measure {handler:.0f} ms at the median; "
        f"from the arrival it is {arrival:.0f} ms."
    )


def _known(preset: Preset | None, known: Sequence[Beside]) -> Html:
    if preset is None:
        return Html("")
    lines = [
        blocks.Row(
            [
                one.known.field, one.known.source, one.known.green_threads, one.known.shape.calls,
                amount(one.known.value), amount(one.measured), f"{100 * one.off_frac:+.1f} %",
            ]
        )
        for one in known
    ]  # fmt: skip
    heads = ["figure", "source", "green threads", "calls", "known", "measured", "off"]
    hides = element("ul", *(element("li", said) for said in preset.hides), class_="findings")
    return blocks.section(
        "Published and measured",
        blocks.table(heads, lines, "published and measured", names=2) if lines else "",
        hides,
        about="published: printed by the article. N/X: what its throughput demands of the latency by Little's law. "
        "model: exact, without switching costs.",
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


def _rows(rows: Sequence[Row]) -> Html:
    heads = ["contender", "shape", "N", "per s", "speed-up", "CPU", "computed"]
    heads += [f"{clock} {p}" for clock in CLOCKS for p in ("p50", "p95", "p99")]
    heads += [f"N by {clock}" for clock in CLOCKS] + ["empty"]
    lines = []
    for row in rows:
        shape = Shape(row["set_cpu_ms"], row["set_network_ms"], row["calls"], row["together"])
        cells = [row["contender"], shape.said(), row["green_threads"]]
        cells += [amount(row["done_per_s"]), amount(row["speedup"])]
        cells += [f"{100 * row[name]:.1f} %" for name in ("cpu_utilisation_frac", "computed_utilisation_frac")]
        cells += [f"{row[f'{clock}_{p}_ms']:.1f}" for clock in CLOCKS for p in ("p50", "p95", "p99")]
        cells += [f"{row[f'little_{clock}_jobs']:.2f}" for clock in (*CLOCKS, "empty")]
        lines.append(blocks.Row(cells, "ours" if row["contender"] == "greenlane" else ""))
    return blocks.section(
        "All figures",
        blocks.table(heads, lines, "all figures", names=2),
        about="Latencies in ms. CPU: of the program's process, measured. computed: throughput times the CPU asked "
        "for, as the article's. N by a clock: throughput times mean latency (Little's law); by the arrival, with the "
        "places that stood empty when no request was left for them, it is N.",
    )


def _method(measured: Measured) -> Html:
    names = dict.fromkeys(
        f"{cell.runtime.name}: {cell.runtime.said} ({runs[0].runtime})" for cell, runs in measured.items()
    )
    return blocks.section(
        "How it was measured",
        element("ul", *(element("li", said) for said in names), class_="findings"),
        blocks.note(
            "Each run is a process of its own; runs take turns in random order. CPU work is a number of loop "
            "iterations, counted against the thread's CPU clock when the process starts: work that ends when the wall "
            "clock says so shrinks on a busy machine, and flatters it. The network is a timer. Constant work and a "
            "closed loop: no real service has either, see the dashed lines for what variance costs."
        ),
    )


def _is(row: Row, shape: Shape) -> bool:
    given = (shape.cpu_ms, shape.network_ms, shape.calls, shape.together)
    return (row["set_cpu_ms"], row["set_network_ms"], row["calls"], row["together"]) == given
