"""What times consist of: a bar a row, its parts behind each other, on one axis of time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from greenlane_tools.page.axis import LinearAxis, grid, time_step_ns
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import duration, share
from greenlane_tools.page.svg import LETTER, drawing, label, rect

_LEFT: Final = 250
_RIGHT: Final = 850
_WIDTH: Final = 960
_ROW: Final = 24


class Bar(NamedTuple):
    """One row."""

    name: str
    #: ns by kind; the kind's class `k-<kind>` gives its colour. What is not positive is left out.
    parts: Mapping[str, float]
    #: Printed behind the bar; "" = the sum.
    said: str = ""
    #: Begins a group: some room above.
    first: bool = False
    strong: bool = False


def stacked_bars(bars: Sequence[Bar], title: str) -> Html:
    """The bars in their order."""
    high = max((sum(max(0.0, ns) for ns in bar.parts.values()) for bar in bars), default=0) or 1e6
    behind = max((len(bar.said) for bar in bars), default=0) * LETTER + 20
    axis = LinearAxis(0, high, _LEFT, _WIDTH - max(_WIDTH - _RIGHT, behind), time_step_ns(high))
    height = 8 + sum(_ROW + (8 if bar.first else 0) for bar in bars)
    parts: list[str] = [grid(axis, 4, height)]
    y = 6.0
    for bar in bars:
        y += 8 if bar.first else 0
        parts.append(_bar(bar, y, axis))
        y += _ROW
    return drawing(_WIDTH, height + 24, parts, title)


def _bar(bar: Bar, y: float, axis: LinearAxis) -> Html:
    total = sum(max(0.0, ns) for ns in bar.parts.values())
    parts = [label(0, y + 13, bar.name, "strong" if bar.strong else "", room=_LEFT - 10)]
    done = 0.0
    for kind, ns in bar.parts.items():
        if ns <= 0:
            continue
        x0, x1 = axis.at(done), axis.at(done + ns)
        said = f"{bar.name}: {kind} {duration(ns)} ({share(ns / total)})"
        if x1 - x0 >= 0.15:
            parts.append(rect(x0, y, x1 - x0, _ROW - 8, f"k-{kind}", said))
        inside = share(ns / total)
        if x1 - x0 > len(inside) * 7 + 6:
            parts.append(label((x0 + x1) / 2, y + 12, inside, "on", "middle"))
        done += ns
    parts.append(label(axis.at(done) + 8, y + 12.5, bar.said or duration(total), "figure"))
    return Html("".join(parts))
