"""Values over any quantity: lines with points and intervals, and what theory says of them, dashed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from greenlane_tools.page.frame import Frame, Mark, Scale, framed, tone
from greenlane_tools.page.html import Html
from greenlane_tools.page.svg import drawing, line, path

#: A line of more points is drawn without a sign at each.
_MOST_SIGNS: Final = 40
#: Places of one line that say their value under the pointer.
_MOST_SAID: Final = 80
#: Ways a line can be dashed, and shapes a point can have.
_DASHES: Final = 3
_SHAPES: Final = 4
#: Curves that the description names.
_DESCRIBED: Final = 10


class Point(NamedTuple):
    """One value; `low` and `high` are its interval, None = it has none. A `y` that is no number interrupts the line."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None


class Curve(NamedTuple):
    """One line."""

    name: str
    #: Ascending x.
    points: Sequence[Point]
    #: Drawn as a band behind the line instead of a bar at each point.
    band: bool = False
    #: What is expected, not measured: dashed, without points.
    reference: bool = False
    #: Stands out: at most one.
    strong: bool = False
    #: Number of its colour, so that a name has one colour on all charts of a page, or a reference that of what it
    #: explains; None = by place.
    tone: int | None = None


def curves(
    series: Sequence[Curve],
    title: str,
    x: Scale,
    y: Scale,
    *,
    upright: Sequence[Mark] = (),
    level: Sequence[Mark] = (),
    width: float = 960,
    height: float = 300,
) -> Html:
    """The lines, named at their right ends.

    Args:
        series: in order of drawing; references lie behind.
        title: for screen readers.
        upright: marks on `x`.
        level: marks on `y`.
        width, height: of the drawing; 960 fills a page's column, 560 is meant for two beside each other.
    """
    measured = [curve for curve in series if not curve.reference]
    references = [curve for curve in series if curve.reference]
    frame = framed(
        x, y, _extent(measured), others=_extent(references), names=[curve.name for curve in series],
        upright=upright, level=level, width=width, height=height,
    )  # fmt: skip
    tones = _tones(measured)
    drawn = [frame.ground(x, y), frame.level(level), frame.upright(upright)]
    drawn += [_reference(frame, curve, number) for number, curve in enumerate(references)]
    drawn += [_intervals(frame, curve, tones[curve.name]) for curve in measured]
    drawn += [_line(frame, curve, tones[curve.name], number, x, y) for number, curve in enumerate(measured)]
    ends = [(curve.name, f"name s{tones[curve.name]}" + " strong" * curve.strong, curve) for curve in measured]
    ends += [(curve.name, _quiet(curve, "name aside"), curve) for curve in references]
    found = [(name, style, _end(frame, curve)) for name, style, curve in ends]
    drawn.append(frame.names([(name, style, end) for name, style, end in found if end] + frame.level_ends(level)))
    return drawing(width, frame.bottom + 44, drawn, title, described=_described(series, x, y))


def _extent(series: Sequence[Curve]) -> list[tuple[float, float]]:
    return [
        (point.x, value)
        for curve in series
        for point in curve.points
        for value in (point.y, point.low, point.high)
        if value is not None and math.isfinite(value)
    ]


def _tones(measured: Sequence[Curve]) -> Mapping[str, int]:
    strong = next((curve.name for curve in measured if curve.strong), "")
    found = tone((curve.name for curve in measured), strong)
    return {curve.name: found[curve.name] if curve.tone is None else curve.tone for curve in measured}


def _quiet(curve: Curve, style: str) -> str:
    return f"{style} soft" if curve.tone is None else f"{style} s{curve.tone}"


def _reference(frame: Frame, curve: Curve, number: int) -> Html:
    places = [(point.x, point.y) for point in curve.points]
    return frame.line(places, f"{_quiet(curve, 'reference')} d{number % _DASHES}", f"{curve.name} (expected)")


def _intervals(frame: Frame, curve: Curve, number: int) -> Html:
    found = [(p.x, p.low, p.high) for p in curve.points if p.low is not None and p.high is not None]
    if curve.band:
        upper, lower = [(x, high) for x, _, high in found], [(x, low) for x, low, _ in reversed(found)]
        return frame.area(upper + lower, f"band s{number}")
    parts = []
    for x, low, high in found:
        at, top, bottom = frame.x.at(x), frame.y.at(high), frame.y.at(low)
        parts.append(line(at, top, at, bottom, f"error s{number}"))
        parts += [line(at - 3.5, y, at + 3.5, y, f"error s{number}") for y in (top, bottom)]
    return Html("".join(parts))


def _line(frame: Frame, curve: Curve, number: int, place: int, x: Scale, y: Scale) -> Html:
    style = f"trace s{number}" + " strong" * curve.strong
    parts = [frame.line([(point.x, point.y) for point in curve.points], style)]
    seen = [point for point in curve.points if frame.inside(point.x, point.y)]
    signs = len(curve.points) <= _MOST_SIGNS
    for point in seen[:: max(1, -(-len(seen) // _MOST_SAID))]:
        places = frame.x.at(point.x), frame.y.at(point.y)
        d, shown = (_sign(*places, place), f"spot s{number}") if signs else (_round(*places, 6), "hit")
        parts.append(path(d, shown, f"{curve.name}: {_said(point, y)} at {x.said(point.x)}"))
    return Html("".join(parts))


def _said(point: Point, y: Scale) -> str:
    if point.low is None or point.high is None:
        return y.said(point.y)
    return f"{y.said(point.y)} ({y.said(point.low)} to {y.said(point.high)})"


def _sign(x: float, y: float, place: int) -> str:
    """A shape by place: lines can be distinguished without colours too."""
    match place % _SHAPES:
        case 0:
            return _round(x, y, 3.4)
        case 1:
            return f"M{x - 3:.1f} {y - 3:.1f}h6v6h-6Z"
        case 2:
            return f"M{x:.1f} {y - 4:.1f}l4 7h-8Z"
        case _:
            return f"M{x:.1f} {y - 4.4:.1f}l4.4 4.4l-4.4 4.4l-4.4 -4.4Z"


def _round(x: float, y: float, radius: float) -> str:
    arc = f"a{radius:g} {radius:g} 0 1 0"
    return f"M{x - radius:.1f} {y:.1f}{arc} {2 * radius:g} 0{arc} {-2 * radius:g} 0Z"


def _end(frame: Frame, curve: Curve) -> tuple[float, float] | None:
    """Where the line is last seen; None = nowhere."""
    seen = [point for point in curve.points if frame.inside(point.x, point.y)]
    return (frame.x.at(seen[-1].x), frame.y.at(seen[-1].y)) if seen else None


def _described(series: Sequence[Curve], x: Scale, y: Scale) -> str:
    told = []
    for curve in series[:_DESCRIBED]:
        points = [point for point in curve.points if math.isfinite(point.y)]
        kind = " (expected)" if curve.reference else ""
        if points:
            first, last = points[0], points[-1]
            ends = f"{_said(first, y)} at {x.said(first.x)}, {_said(last, y)} at {x.said(last.x)}"
            told.append(f"{curve.name}{kind}: {ends}")
    more = f"; {len(series) - _DESCRIBED} more" if len(series) > _DESCRIBED else ""
    return f"{y.title} over {x.title}. {'; '.join(told) or 'nothing measured'}{more}."
