"""How often each value came: steps over an axis, one or several series laid over each other, percentiles below."""

from __future__ import annotations

import itertools
import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Final

from greenlane_tools.page.frame import Frame, Mark, Scale, framed, tone
from greenlane_tools.page.html import Html, joined
from greenlane_tools.page.quantities import count, milliseconds, share
from greenlane_tools.page.svg import LETTER, circle, drawing, label, line

PERCENTILES: Final = (0.5, 0.95, 0.99)
_ROW: Final = 22


def histogram(
    series: Mapping[str, Sequence[float]],
    title: str,
    x: Scale | None = None,
    *,
    bins: int = 60,
    upright: Sequence[Mark] = (),
    strong: str = "",
    width: float = 960,
    height: float = 260,
) -> Html:
    """One series: counts. Several: the share of each, so that their sizes do not matter.

    Below it a row a series: a hollow dot at p50, a stroke at p95, a full dot at p99.

    Args:
        series: ascending values by name, in order of drawing.
        x: None = latency in ms on a logarithmic axis. What lies beyond its ends is counted in the outermost bins.
        bins: equally wide on the axis.
        upright: marks on `x`.
        strong: the name that stands out; "" = none.
        height: without the rows.
    """
    x = x or Scale("latency", milliseconds, log=True)
    series = {name: values for name, values in series.items() if len(values)}
    edges = _edges(series, x, bins)
    single = len(series) == 1
    heights = {name: _heights(values, edges, counted=single) for name, values in series.items()}
    y = Scale("count", lambda value: count(round(value))) if single else Scale("share of each", share)
    ends = [(at, value) for found in heights.values() for at in (edges[0], edges[-1]) for value in (max(found), 0.0)]
    frame = framed(x, y, ends or [(1.0, 1.0)], upright=upright, width=width, height=height)
    tones = tone(series, strong)
    drawn: list[str] = [frame.ground(x, y), frame.upright(upright)]
    drawn += [frame.area(_steps(edges, found), f"steps s{tones[name]}") for name, found in heights.items()]
    if single:
        drawn.append(_columns(frame, edges, next(iter(heights.values())), x))
    # Where a row's words fit on neither side of it, all rows have them on a line of their own.
    row = _ROW if all(_room(frame, values) > _needed(name, values, x) for name, values in series.items()) else 2 * _ROW
    below = frame.bottom + 52
    for number, (name, values) in enumerate(series.items()):
        style, y_row = f"name s{tones[name]}" + " strong" * (name == strong), below + number * row
        drawn.append(_row(frame, name, values, y_row + row - _ROW, f"s{tones[name]}", x))
        drawn.append(_words(frame, f"{name}: {_said(values, x)}", values, y_row, style, apart=row > _ROW))
    told = "; ".join(f"{name}: {_said(values, x)}, {count(len(values))} samples" for name, values in series.items())
    total = below + len(series) * row
    return drawing(width, total, drawn, title, described=f"Frequencies of {x.title}. {told}.")


def _edges(series: Mapping[str, Sequence[float]], x: Scale, bins: int) -> list[float]:
    firsts = [values[bisect_right(values, 0.0) :] if x.log else values for values in series.values()]
    low = x.low if x.low is not None else min((float(values[0]) for values in firsts if len(values)), default=1.0)
    high = x.high if x.high is not None else max((float(values[-1]) for values in series.values()), default=low)
    if not high > low:
        low, high = (low * 0.9, low * 1.1) if low > 0 else (low - 1, low + 1)
    if x.log:
        span = math.log(high / low)
        return [low * math.exp(span * number / bins) for number in range(bins)] + [high]
    return [low + (high - low) * number / bins for number in range(bins)] + [high]


def _heights(values: Sequence[float], edges: Sequence[float], *, counted: bool) -> list[float]:
    # Ascending values: a bin's count is the distance of two searches, whatever the number of samples.
    places = [0, *(bisect_right(values, edge) for edge in edges[1:-1]), len(values)]
    whole = 1 if counted else len(values)
    return [(after - before) / whole for before, after in itertools.pairwise(places)]


def _steps(edges: Sequence[float], heights: Sequence[float]) -> list[tuple[float, float]]:
    points = [(edges[0], 0.0)]
    for number, height in enumerate(heights):
        points += [(edges[number], height), (edges[number + 1], height)]
    return [*points, (edges[-1], 0.0)]


def _columns(frame: Frame, edges: Sequence[float], heights: Sequence[float], x: Scale) -> Html:
    """What the pointer reads: each bin over the whole height."""
    parts = []
    for number, height in enumerate(heights):
        low, high = edges[number], edges[number + 1]
        said = f"{x.said(low)} to {x.said(high)}: {count(round(height))}"
        bottom, top = frame.y.low, frame.y.high
        parts.append(frame.area([(low, bottom), (low, top), (high, top), (high, bottom)], "hit", said))
    return joined(parts)


def _row(frame: Frame, name: str, values: Sequence[float], y: float, style: str, x: Scale) -> Html:
    p50, p95, p99 = (frame.x.at(value) for value in _percentiles(values))
    said = [f"{name}: {each}" for each in _each(values, x)]
    return joined(
        [
            line(p50, y, p99, y, f"span {style}"),
            line(p95, y - 5, p95, y + 5, f"error {style}"),
            circle(p50, y, 3.4, f"hollow {style}", said[0]),
            circle(p99, y, 3.4, f"spot {style}", said[2]),
        ]
    )


def _words(frame: Frame, text: str, values: Sequence[float], y: float, style: str, *, apart: bool) -> Html:
    """A row's name and numbers: on the side that has more room, or above it."""
    if apart:
        return label(frame.left, y + 6, text, style, room=frame.right - frame.left)
    p50, _, p99 = (frame.x.at(value) for value in _percentiles(values))
    if frame.right - p99 >= p50 - frame.left:
        return label(p99 + 12, y + 4, text, style)
    return label(p50 - 12, y + 4, text, style, "end")


def _room(frame: Frame, values: Sequence[float]) -> float:
    p50, _, p99 = (frame.x.at(value) for value in _percentiles(values))
    return max(frame.right - p99, p50 - frame.left)


def _needed(name: str, values: Sequence[float], x: Scale) -> float:
    return len(f"{name}: {_said(values, x)}") * LETTER + 14


def _percentiles(values: Sequence[float]) -> list[float]:
    return [float(values[max(0, math.ceil(at * len(values)) - 1)]) for at in PERCENTILES]


def _said(values: Sequence[float], x: Scale) -> str:
    return ", ".join(_each(values, x))


def _each(values: Sequence[float], x: Scale) -> list[str]:
    return [f"p{at * 100:g} {x.said(value)}" for at, value in zip(PERCENTILES, _percentiles(values), strict=True)]
