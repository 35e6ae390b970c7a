"""Stacks by weight: every frame as wide as the time below it. Click or Enter zooms, the field searches.

Source: B. Gregg, "The Flame Graph", ACM Queue 14 (2016). Ours grows downwards, so that the first screen shows whose it
is, and draws no frame narrower than a thousandth of the whole.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from greenlane_tools.page.html import Html, element, shown
from greenlane_tools.page.quantities import duration, share
from greenlane_tools.page.svg import fitted

_WIDTH: Final = 1000
_ROW: Final = 19
#: Frames narrower than this share of the whole are left out, and a graph has at most this many.
_LEAST: Final = 0.001
_MOST: Final = 3000
#: Recursion deeper than this is cut: such a graph is no longer read.
_DEEPEST: Final = 60


@dataclass
class _Frame:
    name: str
    weight: float = 0.0
    below: dict[str, _Frame] = field(default_factory=dict)


def flame_graph(stacks: Iterable[tuple[str, float]], title: str, identifier: str = "flames") -> Html:
    """The graph with its search field; "" when no stack has weight.

    Args:
        stacks: frames from the outermost to the innermost, `;` between them, and ns; the first frame names the route.
        identifier: the element's id, one of its own for each graph on a page.
    """
    root = _tree(stacks)
    if root.weight <= 0:
        return Html("")
    shapes: list[str] = []
    deepest = _draw(root, root.weight, 0.0, 0, shapes)
    return Html(
        f'<div class="flames" id="{shown(identifier)}"><div class="flames-bar">'
        '<input type="search" class="find" placeholder="search frames" aria-label="search frames">'
        '<button type="button" class="whole" hidden>show all</button><span class="told" aria-live="polite"></span>'
        f'</div><div class="wide drawn"><svg class="chart flame" style="--natural:{_WIDTH + 32}px" '
        f'viewBox="0 0 {_WIDTH} {(deepest + 1) * _ROW}" '
        f'role="group" aria-label="{shown(title)}">{"".join(shapes)}</svg></div></div>'
    )


def _tree(stacks: Iterable[tuple[str, float]]) -> _Frame:
    root = _Frame("all")
    for stack, weight in stacks:
        root.weight += weight
        here = root
        for name in stack.split(";")[:_DEEPEST]:
            here = here.below.setdefault(name, _Frame(name))
            here.weight += weight
    return root


def _draw(frame: _Frame, whole: float, left: float, depth: int, shapes: list[str]) -> int:
    """Appends the frame and what is below it; gives the depth that was reached."""
    wide = frame.weight / whole
    shapes.append(_shape(frame, left, wide, depth))
    deepest, at = depth, left
    for below in sorted(frame.below.values(), key=lambda each: -each.weight):
        if below.weight / whole >= _LEAST and len(shapes) < _MOST:
            deepest = max(deepest, _draw(below, whole, at, depth + 1, shapes))
        at += below.weight / whole
    return deepest


def _shape(frame: _Frame, left: float, wide: float, depth: int) -> str:
    x, width, y = left * _WIDTH, wide * _WIDTH, depth * _ROW
    said = f"{frame.name}: {duration(frame.weight)}, {share(wide)}"
    # The hue follows the function's name: one colour in every place it appears.
    hue = f"f{zlib.crc32(frame.name.encode()) % 6}" if depth else "f-all"
    text = fitted(frame.name, width - 8) if width > 26 else ""
    inside = (
        element("title", said)
        + f'<rect x="{x:.2f}" y="{y}" width="{max(width - 0.6, 0.2):.2f}" height="{_ROW - 1}"/>'
        + f'<text x="{x + 4:.2f}" y="{y + 13}">{shown(text)}</text>'
    )
    return f'<g class="frame {hue}" tabindex="0" data-x="{left:.6f}" data-w="{wide:.6f}">{inside}</g>'
