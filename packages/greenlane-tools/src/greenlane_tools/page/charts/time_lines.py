"""Values over time: a line each on common axes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from greenlane_tools.page.axis import LinearAxis, grid, round_step, time_step_ns
from greenlane_tools.page.frame import apart
from greenlane_tools.page.html import Html
from greenlane_tools.page.svg import circle, drawing, label, line, path

_LEFT: Final = 62
_RIGHT: Final = 780
_WIDTH: Final = 960
_HEIGHT: Final = 170
#: More lines than colours would be no lines at all.
MOST_LINES: Final = 8
#: Points of one line; above it neighbours are drawn by their largest.
_MOST_POINTS: Final = 400


def time_lines(
    series: Mapping[str, Sequence[tuple[float, float]]],
    title: str,
    said: Callable[[float], str],
    *,
    high: float = 0,
    step: Callable[[float], float] = round_step,
) -> Html:
    """Lines named at their right end.

    Args:
        series: (ns since the start, value) by name, ascending; the first `MOST_LINES` are drawn.
        said: how a value reads.
        high: end of the value axis; 0 = the largest value.
        step: between the value axis' ticks, given a fourth of it.
    """
    drawn = {name: _thinned(points) for name, points in list(series.items())[:MOST_LINES] if points}
    end = max((points[-1][0] for points in drawn.values()), default=1) or 1
    top = high or max((value for points in drawn.values() for _, value in points), default=0) * 1.05 or 1
    times = LinearAxis(0, end, _LEFT, _RIGHT, time_step_ns(end))
    values = LinearAxis(0, top, _HEIGHT, 10, step(top / 4))
    parts: list[str] = [grid(times, 10, _HEIGHT)]
    for tick in values.ticks():
        parts.append(line(_LEFT, values.at(tick), _RIGHT, values.at(tick), "grid"))
        parts.append(label(_LEFT - 8, values.at(tick) + 4, said(tick), "soft", "end"))
    lasts = [values.at(points[-1][1]) for points in drawn.values()]
    ends = dict(zip(drawn, apart(lasts, 10, _HEIGHT - 4, 13), strict=True))
    for number, (name, points) in enumerate(drawn.items()):
        places = [(times.at(at), values.at(value)) for at, value in points]
        outline = "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        largest = max(value for _, value in points)
        parts.append(path(f"M{outline}", f"trace s{number}", f"{name}: at most {said(largest)}"))
        if len(places) == 1:
            parts.append(circle(*places[0], 3, f"spot s{number}", f"{name}: {said(largest)}"))
        parts.append(label(_RIGHT + 8, ends[name] + 4, name, f"name s{number}", room=_WIDTH - _RIGHT - 10))
    return drawing(_WIDTH, _HEIGHT + 24, parts, title)


def nanoseconds_step(least: float) -> float:
    """A round step of a value axis of times."""
    return time_step_ns(least, 1)


def _thinned(points: Sequence[tuple[float, float]]) -> Sequence[tuple[float, float]]:
    if len(points) <= _MOST_POINTS:
        return points
    size = -(-len(points) // _MOST_POINTS)
    return [max(points[at : at + size], key=lambda point: point[1]) for at in range(0, len(points), size)]
