"""Distributions of latencies: one row each on a common logarithmic axis, scaled to its own peak."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from greenlane_tools.page.axis import LogAxis, grid
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import duration
from greenlane_tools.page.svg import circle, drawing, label, line, path

_LABEL: Final = 150  # for the names on the left
_NUMBERS: Final = 110  # for p50 and p99 on the right
_ROW: Final = 46
_WIDTH: Final = 560
_BINS: Final = 72


def ridges(
    series: Mapping[str, Sequence[float]], title: str, *, deadline_ns: float | None = None, strong: str = ""
) -> Html:
    """Hollow dot p50, full dot p99.

    Args:
        series: ns, ascending and not empty, by name in order of drawing.
        deadline_ns: what lies beyond it is drawn in the colour of failure; None = nothing is.
        strong: the name that stands out; "" = none.
    """
    low = min(values[0] for values in series.values()) * 0.9
    high = max(values[-1] for values in series.values()) * 1.06
    axis = LogAxis(max(low, 1e3), max(high, 2e3), _LABEL, _WIDTH - _NUMBERS)
    bottom = 22 + _ROW * len(series)
    parts = [grid(axis, 14, bottom)]
    if deadline_ns is not None and axis.low < deadline_ns < axis.high:
        parts.append(line(axis.at(deadline_ns), 10, axis.at(deadline_ns), bottom, "deadline"))
    parts.append(label(_WIDTH, 8, "p50 / p99", "soft", "end"))
    for number, (name, values) in enumerate(series.items()):
        parts.append(_ridge(axis, 22 + _ROW * (number + 1), name, values, deadline_ns, name == strong))
    return drawing(_WIDTH, bottom + 24, parts, title)


def _ridge(
    axis: LogAxis, base: float, name: str, values: Sequence[float], deadline_ns: float | None, strong: bool
) -> Html:
    left, right = _LABEL, _WIDTH - _NUMBERS
    counts = [0] * (_BINS + 2)
    for value in values:
        counts[min(_BINS, 1 + int(_BINS * (axis.at(value) - left) / (right - left)))] += 1
    smooth = [(counts[n - 1] + 2 * counts[n] + counts[n + 1]) / 4 for n in range(1, _BINS + 1)]
    peak = max(smooth)
    points = [
        (left + (right - left) * (n + 0.5) / _BINS, base - 3 - (_ROW - 12) * height / peak)
        for n, height in enumerate(smooth)
    ]
    used = [n for n, height in enumerate(smooth) if height]
    before, past = _cut(
        points[max(0, used[0] - 1) : used[-1] + 2], axis.at(deadline_ns) if deadline_ns is not None else math.inf
    )
    p50, p99 = (values[max(0, math.ceil(at * len(values)) - 1)] for at in (0.5, 0.99))
    late = deadline_ns is not None and p99 > deadline_ns
    said = f"{duration(p50)} / {duration(p99)}"
    return Html(
        line(left, base - 3, right, base - 3, "base")
        + _area(before, base - 3, "area ours" if strong else "area")
        + _area(past, base - 3, "area past")
        + circle(axis.at(p50), base - 3, 3.2, "p50", f"{name}: p50 {duration(p50)}")
        + circle(axis.at(p99), base - 3, 3.2, "p99", f"{name}: p99 {duration(p99)}")
        + label(0, base - 8, name, "ours" if strong else "", room=_LABEL - 8)
        + label(_WIDTH, base - 8, said, "late" if late else "", "end")
    )


def _cut(
    points: Sequence[tuple[float, float]], at: float
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    before = [point for point in points if point[0] <= at]
    past = [point for point in points if point[0] > at]
    if before and past:
        (x0, y0), (x1, y1) = before[-1], past[0]
        middle = (at, y0 + (y1 - y0) * (at - x0) / (x1 - x0))
        before.append(middle)
        past.insert(0, middle)
    return before, past


def _area(points: Sequence[tuple[float, float]], base: float, style: str) -> str:
    if len(points) < 2:
        return ""
    outline = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return path(f"M{points[0][0]:.1f} {base}L{outline}L{points[-1][0]:.1f} {base}Z", style)
