"""The page's drawings as SVG text: distributions, shares with intervals, and the strip of offers. No dependency."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

from greenlane.demo.conclusion import OURS
from greenlane.demo.rows import Row
from greenlane.demo.samples import quantile

_LABEL: Final = 128  # px for the contender's name on the left
_NUMBERS: Final = 96  # px for p50 and p99 on the right
_ROW: Final = 46
_WIDTH: Final = 560
_BINS: Final = 72
_TICKS_MS: Final = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000)


def distributions(latencies_ms: Mapping[str, Sequence[float]], deadline_ms: float | None) -> str:
    """One row a contender: the density of its latencies on a common logarithmic axis, each scaled to its own peak.

    Args:
        latencies_ms: ascending and not empty, by contender in order of drawing.
        deadline_ms: what lies beyond it is drawn in the colour of failure; None = nothing is.
    """
    low = min(values[0] for values in latencies_ms.values()) * 0.9
    high = max(values[-1] for values in latencies_ms.values()) * 1.06
    axis = _LogAxis(max(low, 1.0), high, _LABEL, _WIDTH - _NUMBERS)
    bottom = 22 + _ROW * len(latencies_ms)
    parts = [_grid(axis, 14, bottom)]
    if deadline_ms is not None and axis.low < deadline_ms < axis.high:
        x = axis.x(deadline_ms)
        parts.append(f'<line class="deadline" x1="{x:.1f}" x2="{x:.1f}" y1="10" y2="{bottom}"/>')
    parts.append(f'<text class="soft" x="{_WIDTH}" y="8" text-anchor="end">p50 / p99 ms</text>')
    for number, (name, values) in enumerate(latencies_ms.items()):
        parts.append(_ridge(axis, 22 + _ROW * (number + 1), name, values, deadline_ms))
    return _svg(_WIDTH, bottom + 24, parts)


def shares(cells: Mapping[float, Sequence[Row]]) -> str:
    """Share within the deadline by utilisation and contender: a dot with its 95 % interval."""
    parts: list[str] = []
    y, left, right = 18.0, 200, _WIDTH * 1.6 - 150
    count = sum(len(rows) for rows in cells.values())
    bottom = y + count * 22 + len(cells) * 14
    for percent in (0, 25, 50, 75, 100):
        x = left + (right - left) * percent / 100
        parts.append(f'<line class="grid" x1="{x:.0f}" x2="{x:.0f}" y1="8" y2="{bottom:.0f}"/>')
        parts.append(f'<text class="soft" x="{x:.0f}" y="{bottom + 16:.0f}" text-anchor="middle">{percent} %</text>')
    for utilisation, rows in cells.items():
        parts.append(f'<text class="soft" x="0" y="{y + 4:.0f}">{utilisation:g} CPU</text>')
        for row in rows:
            parts.append(_share(row, y, left, right))
            y += 22
        y += 14
    return _svg(_WIDTH * 1.6, bottom + 24, parts)


class StripPlace:
    """Where the strip's time axis lies, in the SVG's own units; the replay needs it too."""

    left: Final = 140
    width: Final = 760
    row: Final = 30


def strips(ticks: Mapping[str, Sequence[tuple[float, bool]]], seconds: float, begins_s: Mapping[float, float]) -> str:
    """One row a contender: a tick for each bike request at its time (s), green when its offer came within 500 ms.

    Args:
        ticks: (time, late) by contender.
        seconds: length of the axis.
        begins_s: where on it the load of each utilisation begins.
    """
    place = StripPlace
    top, bottom = 16, place.row * len(ticks) + 22
    parts = []
    for utilisation, begin_s in begins_s.items():
        x = place.left + begin_s / seconds * place.width
        parts.append(f'<text class="soft" x="{x + 4:.0f}" y="9">{utilisation:g} CPU</text>')
        parts.append(f'<line class="base" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{bottom}"/>')
    for number, (name, marks) in enumerate(ticks.items()):
        y = top + place.row * number
        parts.append(f'<text {_ours(name)}x="0" y="{y + 17}">{escape(name)}</text>')
        for late in (False, True):
            path = "".join(
                f"M{place.left + at / seconds * place.width:.1f} {y}v22" for at, missed in marks if missed == late
            )
            parts.append(f'<path class="tick-{"late" if late else "ok"}" stroke-width="1.6" d="{path}"/>')
        missed = sum(late for _, late in marks)
        said = f"{missed} of {len(marks)} missing"
        style, x_said = "late" if missed else "soft", place.left + place.width + 12
        parts.append(f'<text class="{style}" x="{x_said}" y="{y + 17}">{said}</text>')
    for second in range(0, int(seconds) + 1, 10):
        x = place.left + second / seconds * place.width
        parts.append(f'<text class="soft" x="{x:.0f}" y="{bottom + 14}" text-anchor="middle">{second} s</text>')
    parts.append(f'<line class="cursor" x1="0" x2="0" y1="0" y2="{bottom}" transform="translate({place.left} 0)"/>')
    return _svg(place.left + place.width + 130, bottom + 20, parts)


class _LogAxis:
    def __init__(self, low: float, high: float, left: float, right: float) -> None:
        self.low, self.high = low, high
        self._left, self._right = left, right
        self._span = math.log(high / low)

    def x(self, value: float) -> float:
        return self._left + (self._right - self._left) * math.log(max(value, self.low) / self.low) / self._span

    def bin_of(self, value: float) -> int:
        return min(_BINS - 1, int(_BINS * math.log(max(value, self.low) / self.low) / self._span))

    def edge(self, number: float) -> float:
        return self._left + (self._right - self._left) * number / _BINS


def _ridge(axis: _LogAxis, base: float, name: str, values: Sequence[float], deadline_ms: float | None) -> str:
    counts = [0] * (_BINS + 2)
    for value in values:
        counts[axis.bin_of(value) + 1] += 1
    smooth = [(counts[n - 1] + 2 * counts[n] + counts[n + 1]) / 4 for n in range(1, _BINS + 1)]
    peak = max(smooth)
    points = [(axis.edge(n + 0.5), base - 3 - (_ROW - 12) * height / peak) for n, height in enumerate(smooth)]
    used = [n for n, height in enumerate(smooth) if height]
    points = points[max(0, used[0] - 1) : used[-1] + 2]
    cut = axis.x(deadline_ms) if deadline_ms is not None else math.inf
    parts = [f'<line class="base" x1="{_LABEL}" x2="{_WIDTH - _NUMBERS}" y1="{base - 3}" y2="{base - 3}"/>']
    before, past = _split(points, cut)
    parts.append(_area(before, base - 3, "area ours" if name == OURS else "area"))
    parts.append(_area(past, base - 3, "area past"))
    p50, p99 = quantile(values, 0.5), quantile(values, 0.99)
    parts.append(f'<circle class="p50" cx="{axis.x(p50):.1f}" cy="{base - 3}" r="3.2"/>')
    parts.append(f'<circle class="p99" cx="{axis.x(p99):.1f}" cy="{base - 3}" r="3.2"/>')
    parts.append(f'<text {_ours(name)}x="0" y="{base - 8}">{escape(name)}</text>')
    late = ' class="late"' if deadline_ms is not None and p99 > deadline_ms else ""
    parts.append(f'<text{late} x="{_WIDTH}" y="{base - 8}" text-anchor="end">{p50:.0f} / {p99:.0f}</text>')
    return "".join(parts)


def _split(
    points: Sequence[tuple[float, float]], cut: float
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    before = [point for point in points if point[0] <= cut]
    past = [point for point in points if point[0] > cut]
    if before and past:
        (x0, y0), (x1, y1) = before[-1], past[0]
        middle = (cut, y0 + (y1 - y0) * (cut - x0) / (x1 - x0))
        before.append(middle)
        past.insert(0, middle)
    return before, past


def _area(points: Sequence[tuple[float, float]], base: float, style: str) -> str:
    if len(points) < 2:
        return ""
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return f'<path class="{style}" d="M{points[0][0]:.1f} {base}L{line}L{points[-1][0]:.1f} {base}Z"/>'


def _grid(axis: _LogAxis, top: float, bottom: float) -> str:
    parts, last = [], -math.inf
    for tick in _TICKS_MS:
        if not axis.low <= tick <= axis.high:
            continue
        x = axis.x(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>')
        if x - last > 48:
            last, said = x, f"{tick} ms" if tick < 1000 else f"{tick // 1000} s"
            parts.append(f'<text class="soft" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{said}</text>')
    return "".join(parts)


def _share(row: Row, y: float, left: float, right: float) -> str:
    share, low, high = row.within_deadline_frac, row.within_deadline_low_frac, row.within_deadline_high_frac
    if share is None or low is None or high is None:
        return ""
    x0, x, x1 = (left + (right - left) * value for value in (low, share, high))
    ours = " ours" if row.contender == OURS else ""
    return (
        f'<text {_ours(row.contender)}x="72" y="{y + 4:.0f}">{escape(row.contender)}</text>'
        f'<line class="whisker{ours}" x1="{x0:.1f}" x2="{x1:.1f}" y1="{y:.0f}" y2="{y:.0f}"/>'
        f'<circle class="dot{ours}" cx="{x:.1f}" cy="{y:.0f}" r="4.5"/>'
        f'<text x="{right + 14:.0f}" y="{y + 4:.0f}">{share * 100:.1f} % '
        f'<tspan class="soft">[{low * 100:.1f}-{high * 100:.1f}]</tspan></text>'
    )


def _ours(name: str) -> str:
    return 'class="ours" ' if name == OURS else ""


def _svg(width: float, height: float, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width:.0f} {height:.0f}" role="img">{"".join(parts)}</svg>'
