"""The drawings of a run: speed-up and latency over green threads with theory drawn in; who had the CPU, and when."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from importlib import resources
from typing import Final

from greenlane_tools.lab.part3.rows import Row, longest
from greenlane_tools.lab.part3.run import Request, Run
from greenlane_tools.lab.part3.runtimes import Shape
from greenlane_tools.page.axis import LinearAxis, grid
from greenlane_tools.page.charts.curves import Curve, Mark, Point, Scale, curves
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import amount, milliseconds
from greenlane_tools.page.svg import drawing, label, rect

__all__ = ["LANE_COLOURS", "Picture", "hidden", "lanes", "latency_curves", "lines", "picture", "speedup_curves"]


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
