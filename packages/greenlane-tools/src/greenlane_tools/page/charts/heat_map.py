"""Who did how much to whom: rows suffer, columns cause, a cell's colour is its share of the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from greenlane_tools.page.html import Html, element, shown
from greenlane_tools.page.quantities import duration, share
from greenlane_tools.page.svg import LETTER, drawing, fitted, label, rect

_MOST_LEFT: Final = 250
_MOST_HEAD: Final = 150
_CELL: Final = 66
_ROW: Final = 30


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], float],
    title: str,
    said: Callable[[float], str] = duration,
    told: Callable[[str, str, str, str], str] | None = None,
) -> Html:
    """The map; a cell that is not in `cells` stays empty.

    Args:
        cells: value by (row, column), >= 0.
        told: under the pointer, of row, column, value and share of all; None = who waited for whom.
    """
    whole = sum(cells.values()) or 1.0
    most = max(cells.values(), default=0) or 1.0
    left = min(_MOST_LEFT, 14 + LETTER * max(map(len, rows), default=0))
    head = min(_MOST_HEAD, 18 + 0.65 * LETTER * max(map(len, columns), default=0))
    parts = [_column(left + number * _CELL, head, name) for number, name in enumerate(columns)]
    for place, row in enumerate(rows):
        y = head + place * _ROW
        parts.append(label(left - 10, y + 19, row, "", "end", room=left - 6))
        for number, column in enumerate(columns):
            value = cells.get((row, column), 0.0)
            x = left + number * _CELL
            parts.append(rect(x + 1, y + 1, _CELL - 2, _ROW - 2, "cell-empty"))
            if value <= 0:
                continue
            # The root: small shares stay visible beside a dominating one; the number says what the colour blurs.
            depth = 0.08 + 0.84 * (value / most) ** 0.5
            pointed = (told or _waited)(row, column, said(value), share(value / whole))
            parts.append(rect(x + 1, y + 1, _CELL - 2, _ROW - 2, "cell", pointed, f' fill-opacity="{depth:.2f}"'))
            style = "on" if depth > 0.55 else ""
            parts.append(label(x + _CELL / 2, y + 19, said(value), style, "middle"))
    width = left + len(columns) * _CELL + 90
    return drawing(width, head + len(rows) * _ROW + 6, parts, title)


def _waited(row: str, column: str, value: str, of_all: str) -> str:
    return f"{row} waited {value} for {column}: {of_all} of all"


def _column(left: float, head: float, name: str) -> Html:
    x, y = left + _CELL / 2 + 4, head - 8
    turned = f'transform="rotate(-40 {x:.0f} {y:.0f})" x="{x:.0f}" y="{y:.0f}"'
    return Html(f"<text {turned}>{shown(fitted(name, 205))}{element('title', name)}</text>")
