"""Distributions laid over each other: the share slower than each time, so that tails can be told apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from greenlane_tools.page.frame import Mark, Scale, framed, tone
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import count, milliseconds
from greenlane_tools.page.svg import circle, drawing

__all__ = ["Tail", "cumulative"]

#: Places of one line.
_MOST_POINTS: Final = 240
#: Places that say their value under the pointer: these percentiles, as far as the samples carry.
_SAID: Final = ((0.5, "p50"), (0.1, "p90"), (0.05, "p95"), (0.01, "p99"), (0.001, "p99.9"), (0.0001, "p99.99"))
#: A percentile is shown when at least this many samples lie beyond it.
_BEYOND: Final = 5
_LINEAR_TICKS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)


class Tail(NamedTuple):
    """One distribution."""

    #: Ascending, not empty.
    values: Sequence[float]
    #: (share that is slower, lowest, highest value there), by share: what it may also have been; () = unknown.
    band: Sequence[tuple[float, float, float]] = ()


def cumulative(
    series: Mapping[str, Tail],
    title: str,
    x: Scale | None = None,
    *,
    log_share: bool = True,
    upright: Sequence[Mark] = (),
    strong: str = "",
    width: float = 960,
    height: float = 320,
) -> Html:
    """A line each, falling from all to the slowest one.

    Args:
        series: by name, in order of drawing.
        x: None = latency in ms on a logarithmic axis.
        log_share: a tenth, a hundredth, a thousandth of the samples take equal room; else equal shares do.
        upright: marks on `x`, such as the deadline.
        strong: the name that stands out; "" = none.
    """
    x = x or Scale("latency", milliseconds, log=True)
    series = {name: tail for name, tail in series.items() if len(tail.values)}
    least = min((1 / len(tail.values) for tail in series.values()), default=0.01)
    ticks = [share for share, _ in _SAID if share >= least and share != 0.05]
    y = Scale(
        "share that is slower", _slower, log_share, least * 0.9 if log_share else 0, 1.0,
        (1.0, *ticks) if log_share else _LINEAR_TICKS,
    )  # fmt: skip
    lines = {name: _points(tail.values) for name, tail in series.items()}
    ends = [point for points in lines.values() for point in (points[0], points[-1])]
    frame = framed(x, y, ends, names=list(series), upright=upright, width=width, height=height)
    tones = tone(series, strong)
    drawn: list[str] = [frame.ground(x, y), frame.upright(upright)]
    for name, tail in series.items():
        outline = [(low, share) for share, low, _ in tail.band]
        outline += [(high, share) for share, _, high in reversed(tail.band)]
        drawn.append(frame.area(outline, f"band s{tones[name]}"))
    names, told = [], []
    for name, tail in series.items():
        style = f"s{tones[name]}" + " strong" * (name == strong)
        drawn.append(frame.line(lines[name], f"trace {style}", f"{name}: {count(len(tail.values))} samples"))
        found = _percentiles(tail.values)
        for said, share, value in found:
            if frame.inside(value, share):
                place = frame.x.at(value), frame.y.at(share)
                drawn.append(circle(*place, 3.2, f"spot s{tones[name]}", f"{name}: {said} {x.said(value)}"))
        last = lines[name][-1]
        names.append((name, f"name {style}", (frame.x.at(last[0]), frame.y.at(last[1]))))
        told.append(f"{name}: " + ", ".join(f"{said} {x.said(value)}" for said, _, value in found))
    drawn.append(frame.names(names))
    return drawing(width, frame.bottom + 44, drawn, title, described=f"Shares slower than {x.title}. {'; '.join(told)}")


def _points(values: Sequence[float]) -> list[tuple[float, float]]:
    """(value, share slower than it), from just before the first to the last; places by equal factors of the share."""
    size = len(values)
    most = min(size, _MOST_POINTS)
    beyond = {round(size ** (1 - place / max(1, most - 1))) for place in range(most)} | {
        round(size * (1 - place / max(1, most))) for place in range(most)
    }
    # `n` samples are at least as slow as the n-th from the end.
    return [(float(values[size - n]), n / size) for n in sorted(beyond, reverse=True) if n >= 1]


def _percentiles(values: Sequence[float]) -> list[tuple[str, float, float]]:
    size = len(values)
    return [
        (said, share, float(values[max(0, math.ceil((1 - share) * size) - 1)]))
        for share, said in _SAID
        if share * size >= _BEYOND or share == 0.5
    ]


def _slower(share: float) -> str:
    if share == 1:
        return "all"
    known = dict(_SAID)
    percent = f"{share * 100:g} %"
    return f"{percent} ({known[share]})" if share in known else percent
