"""The text of a run: what people read in the terminal, as tables and lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from typing import Final

from greenlane_tools.lab.experiment.result import Table, disturbed
from greenlane_tools.lab.part3.cells import Cell, Measured, Request, Run
from greenlane_tools.lab.part3.presets import Beside
from greenlane_tools.lab.part3.rows import CLOCKS, Row, latencies_ms, longest
from greenlane_tools.lab.part3.runtimes import Shape
from greenlane_tools.lab.statistics import BEYOND, enough
from greenlane_tools.page.axis import LinearAxis, grid
from greenlane_tools.page.charts.curves import Curve, Point, curves
from greenlane_tools.page.frame import Mark, Scale
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import amount, milliseconds
from greenlane_tools.page.svg import drawing, label, rect

# --- The drawings of a run: speed-up and latency over green threads with theory drawn in; who had the CPU, and when.


#: What the colours of `lanes` mean, by class.
LANE_COLOURS: Final = {
    "k-accept": "before its first instruction",
    "k-cpu": "CPU",
    "k-io": "network",
    "k-loop": "ready, not resumed",
}
#: Points of a curve of theory.
_FINE: Final = 200
_ROW: Final = 22
_WIDTH: Final = 960
_LEFT: Final = 96


def speedup_curves(rows: Sequence[Row], shape: Shape, *, width: float = 960) -> Html:
    """Speed-up against green threads: measured, what nothing exceeds, and what varying work would give."""
    most = max(row["green_threads"] for row in rows)
    alone_per_s = shape.most_per_s(1)
    series = [_curve(name, found, "speedup") for name, found in _by_contender(rows)]
    series.append(_theory("bound", most, lambda n: shape.most_per_s(n) / alone_per_s))
    series.append(_theory("MVA", most, lambda n: shape.means(n)[0] / alone_per_s))
    limit = shape.knee()
    level = [Mark(limit, f"1/(1-p) = {limit:.4g}")] if shape.cpu_ms else []
    y = Scale("speed-up", lambda value: f"{amount(value)}×")
    return curves(series, "speed-up", _places(most), y, level=level, upright=_knee(shape, most), width=width)


def latency_curves(
    rows: Sequence[Row], shape: Shape, clock: str = "arrival", *, share: str = "p50", width: float = 960
) -> Html:
    """Latency by a clock against green threads, with max(C+S, N·C) and the mean of varying work.

    Args:
        share: "p50", "p95" or "p99".
    """
    most = max(row["green_threads"] for row in rows)
    series = [_curve(name, found, f"{clock}_{share}_ms") for name, found in _by_contender(rows)]
    series.append(_theory("max(C+S, N·C)", most, shape.least_ms))
    series.append(_theory("MVA (mean)", most, lambda n: shape.means(n)[1]))
    y = Scale(share, milliseconds)
    return curves(series, f"latency, {clock}", _places(most), y, upright=_knee(shape, most), width=width)


def lanes(run: Run, number: int) -> Html:
    """The requests that had the CPU during one request, a row each: CPU dark, network light, the gap between ready and
    resumed in the colour of waiting.
    """
    request = run.requests[number]
    first_ns, last_ns = request.arrival_ns, request.end_ns
    shown = [each for each in run.requests if each.end_ns > first_ns and each.arrival_ns < last_ns]
    axis = LinearAxis(0, (last_ns - first_ns) / 1.0, _LEFT, _WIDTH - 8)
    bottom = 10 + _ROW * len(shown)
    parts: list[str] = [grid(axis, 4, bottom)]
    for row, each in enumerate(shown):
        top = 8 + _ROW * row
        said = f"Request {each.number}"
        parts.append(label(0, top + 13, said, "strong" if each is request else ""))
        for style, begin_ns, end_ns, what in _stretches(run, each.number):
            begin, end = max(begin_ns, first_ns), min(end_ns, last_ns)
            if end > begin:
                x0, x1 = axis.at(begin - first_ns), axis.at(end - first_ns)
                parts.append(
                    rect(x0, top, x1 - x0, _ROW - 6, style, f"{said}: {what} {(end_ns - begin_ns) / 1e6:.1f} ms")
                )
    return drawing(_WIDTH, bottom + 24, parts, f"request {number} and those beside it")


def _stretches(run: Run, number: int) -> Iterator[tuple[str, int, int, str]]:
    request, waits_ms = run.requests[number], run.shape.waits_ms()
    marks = request.marks_ns
    yield "k-accept", request.arrival_ns, request.handler_ns, "waits for its first instruction"
    for burst in range(len(waits_ms) + 1):
        begin_ns, end_ns = marks[2 * burst : 2 * burst + 2]
        yield "k-cpu", begin_ns, end_ns, "CPU"
        if burst < len(waits_ms):
            due_ns = min(end_ns + round(waits_ms[burst] * 1e6), marks[2 * burst + 2])
            yield "k-io", end_ns, due_ns, "network"
            yield "k-loop", due_ns, marks[2 * burst + 2], "ready, but others have the CPU"


def _by_contender(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row]]]:
    for name in dict.fromkeys(str(row["contender"]) for row in rows):
        yield name, sorted((row for row in rows if row["contender"] == name), key=lambda row: row["green_threads"])


def _curve(name: str, rows: Sequence[Row], field: str) -> Curve:
    points = [Point(row["green_threads"], row[field]) for row in rows]
    return Curve(name, points, strong=name == "greenlane")


def _theory(name: str, most: int, value_of: Callable[[int], float]) -> Curve:
    step = max(1, most // _FINE)
    return Curve(name, [Point(n, value_of(n)) for n in range(1, most + 1, step)], reference=True)


def _places(most: int) -> Scale:
    return Scale("green threads", lambda value: f"{value:.0f}", low=0, high=most)


def _knee(shape: Shape, most: int) -> list[Mark]:
    knee = shape.knee()
    return [Mark(knee, f"knee {knee:.4g}")] if knee <= most else []


# --- The longest request as the article prints it: who had the CPU while its network was said to take so long.
#
# [0.763] Request 3: + 25.00ms CPU time
# [0.788] Request 3: + 150.00ms Network time
# [1.016] Request 3: - 150.00ms Network time took 228.47ms
#
# `+` begins, `-` ends; seconds since the run began; requests are numbered in the order of their spawn.


def lines(run: Run, request: Request | None = None) -> list[str]:
    """What happened from the first to the last burst of a request; None = of the longest by the handler's clock."""
    request = longest(run) if request is None else request
    first_ns, last_ns = request.handler_ns, request.marks_ns[-2]
    events = sorted(
        (at_ns, said.endswith("CPU time"), each.number, said)  # at one instant: what ends goes before what begins
        for each in run.requests
        for at_ns, said in _events(run, each)
        if first_ns <= at_ns <= last_ns
    )
    return [f"[{(at - run.began_ns) / 1e9:.3f}] Request {number}: {said}" for at, _, number, said in events]


def hidden(run: Run, request: Request | None = None) -> str:
    """What the published form leaves out of a request: how long it had waited before its first line."""
    request = longest(run) if request is None else request
    handler_ms = (request.end_ns - request.handler_ns) / 1e6
    before_ms = (request.handler_ns - request.arrival_ns) / 1e6
    return (
        f"Request {request.number}: {handler_ms:.2f}ms by its handler's clock, "
        f"{handler_ms + before_ms:.2f}ms since its place was free: {before_ms:.2f}ms before its first instruction"
    )


def _events(run: Run, request: Request) -> Iterator[tuple[int, str]]:
    marks, waits = request.marks_ns, run.shape.waits_ms()
    for number, burst_ms in enumerate(run.shape.bursts_ms()):
        begin_ns, end_ns = marks[2 * number : 2 * number + 2]
        if number:
            took_ms = (begin_ns - marks[2 * number - 1]) / 1e6
            yield begin_ns, f"- {waits[number - 1]:.2f}ms Network time took {took_ms:.2f}ms"
        if burst_ms:
            yield begin_ns, f"+ {burst_ms:.2f}ms CPU time"
        if number < len(waits):
            yield end_ns, f"+ {waits[number]:.2f}ms Network time"


# --- A chart outside a page: an SVG with its own styles, as notebooks show it.


class Picture:
    """An SVG that Jupyter draws by itself."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg


def picture(chart: Html) -> Picture:
    """The chart with the page's colours for light paper; `chart` comes from `page.charts` or `charts`."""
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', chart)
    assert size is not None, "a drawing has a size"
    width, height = size.groups()
    root = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
    ground = f'<style>{_styles()}</style><rect width="{width}" height="{height}" fill="#ffffff"/>'
    head, inside = chart.replace("<svg", root, 1).split(">", 1)
    return Picture(f"{head}>{ground}{inside}")


def _styles() -> str:
    """Of the page's styles the colours and what is about drawings."""
    lines = (resources.files("greenlane_tools.page") / "page.css").read_text(encoding="utf-8").splitlines()
    colours = lines[: lines.index("}") + 1]
    return "\n".join([*colours, *(line for line in lines if line.startswith(("svg", ".k-")))])


#: Lines of a timeline that are shown; more are left out in the middle.
_MOST_LINES: Final = 40
_BINS: Final = 60
_BLOCKS: Final = " ▁▂▃▄▅▆▇█"
#: Measured CPU of a request below this share of what was set.
_SHORT_FRAC: Final = 0.95


def measured_rows(rows: Sequence[Row]) -> Table:
    """Throughput, speed-up, CPU and latencies."""
    mixed = len({_shape(row) for row in rows}) > 1
    found = []
    for row in rows:
        cells: dict[str, object] = {"contender": row["contender"]}
        if mixed:
            cells["CPU/network"] = _shape(row)
        cells |= {
            "N": row["green_threads"],
            "per_s": _round(row["done_per_s"]),
            "speedup": None if row["speedup"] is None else _round(row["speedup"], 2),
        }
        cells |= {
            "cpu_%": _percent(row["cpu_utilisation_frac"]),
            "computed_%": _percent(row["computed_utilisation_frac"]),
        }
        for clock in CLOCKS:
            cells |= {f"{clock}_{p}": _round(row[f"{clock}_{p}_ms"]) for p in ("p50", "p95", "p99")}
        found.append(cells)
    return Table("Latencies in ms by the clock that starts in the handler, at the spawn, at the arrival", found)


def laws(rows: Sequence[Row]) -> Table:
    """Little's law by each clock."""
    mixed = len({_shape(row) for row in rows}) > 1
    found = [
        {
            "contender": row["contender"],
            **({"CPU/network": _shape(row)} if mixed else {}),
            "N": row["green_threads"],
            **{f"{clock}_N": _round(row[f"little_{clock}_jobs"], 2) for clock in CLOCKS},
            "empty": _round(row["little_empty_jobs"], 2),
        }
        for row in rows
    ]
    return Table("Little's law: N = throughput x latency. Only arrival + places empty at the end gives N", found)


def beside(found: Sequence[Beside]) -> Table:
    """Known figures beside the measured ones."""
    rows = [
        {
            "N": one.known.green_threads,
            "calls": f"{one.known.shape.calls}{' at once' * one.known.shape.together}",
            "figure": one.known.field,
            "source": one.known.source,
            "known": one.known.value,
            "gevent": _round(one.measured, 4 if one.known.field.endswith("_frac") else 2),
            "off_%": _round(one.off_frac * 100),
        }
        for one in found
    ]
    return Table("Published, demanded by Little's law (N/X) or modelled, beside measured", rows)


def switches(rows: Sequence[Row]) -> Table:
    """CPU time of one switch by contender."""
    costs: dict[object, list[float]] = {}
    for row in rows:
        if row["yield_us"] is not None:
            costs.setdefault(row["contender"], []).append(row["yield_us"])
    found = [{"contender": name, "us": _round(min(values), 2)} for name, values in costs.items()]
    return Table("CPU time of one switch to another green thread or thread, us", found)


def histograms(cell: Cell, measured: Measured) -> Iterator[str]:
    """A line a clock: how often each latency came, on one axis from the shortest to the longest."""
    requests = [request for run in measured[cell] for request in run.requests]
    series = {clock: latencies_ms(requests, clock) for clock in CLOCKS}
    low, high = min(values[0] for values in series.values()), max(values[-1] for values in series.values())
    mixed = len({one.shape for one in measured if not one.baseline}) > 1
    what = f"{cell.runtime.name}, {places(cell.green_threads)}" + f", {cell.shape.said()}" * mixed
    yield f"{what}, from {low:.1f} to {high:.1f} ms:"
    for clock, values in series.items():
        counts = [0] * _BINS
        for value in values:
            counts[min(_BINS - 1, int(_BINS * (value - low) / (high - low or 1)))] += 1
        bars = "".join(_BLOCKS[-(-count * (len(_BLOCKS) - 1) // max(counts))] for count in counts)
        yield f"  {clock:8}|{bars}|"


def longest_of(cell: Cell, measured: Measured) -> Iterator[str]:
    """The longest request of a cell's last run, as published; then what that form leaves out."""
    run = measured[cell][-1]
    shape = cell.shape
    yield f"{shape.said()} per request ({cell.requests} requests with {places(cell.green_threads)})"
    yield "Longest Request:"
    found = lines(run)
    half = _MOST_LINES // 2
    if len(found) > _MOST_LINES:
        found = [*found[:half], f"        … {len(found) - 2 * half} lines left out", *found[-half:]]
    yield from found
    yield hidden(run)


def told(cells: Sequence[Cell]) -> Cell | None:
    """The cell whose longest request is worth telling: the fewest green threads, above one, with a network."""
    found = [cell for cell in cells if cell.green_threads > 1 and cell.shape.network_ms and not cell.shape.together]
    over = [cell for cell in found if cell.green_threads > cell.shape.knee()]
    return min(over or found, key=lambda cell: cell.green_threads, default=None)


def places(number: int) -> str:
    """This many green threads."""
    return f"{number} green thread{'s' * (number > 1)}"


def warnings(rows: Sequence[Row]) -> Iterator[str]:
    """What makes the figures less than they look, with a remedy."""
    yield from noise(rows)
    few = [row for row in rows if row["requests"] < row["green_threads"]]
    if few:
        most = max(few, key=lambda row: row["green_threads"])
        yield (
            f"{places(most['green_threads'])} had {most['requests']} requests in all, so never as many in progress: "
            f"--requests {10 * most['green_threads']} would do"
        )
    if (fewest := min(row["samples"] for row in rows)) < enough(0.99):
        repetitions = max(row["repetitions"] for row in rows)
        yield (
            f"p99 is rough where fewer than {BEYOND} requests lie beyond it (the smallest cell has {fewest}): "
            f"--requests {-(-enough(0.99) // repetitions)} would do"
        )


def noise(rows: Sequence[Row]) -> list[str]:
    """What to do about a machine that was busy with something else; nothing = it was quiet."""
    if found := disturbed(max(row["others_cores"] for row in rows)):
        return found
    slow = [row for row in rows if row["set_cpu_ms"] and row["cpu_ms_per_job"] < _SHORT_FRAC * row["set_cpu_ms"]]
    names = ", ".join(dict.fromkeys(row["contender"] for row in slow))
    return [f"requests of {names} got less CPU than was set, the machine's pace changes: run again"] if slow else []


def _shape(row: Row) -> str:
    return f"{row['set_cpu_ms']:g}/{row['set_network_ms']:g} in {row['calls']}" + " at once" * bool(row["together"])


def _round(value: float, digits: int = 1) -> float:
    return round(value, digits)


def _percent(value: float) -> float:
    return round(100 * value, 1)
