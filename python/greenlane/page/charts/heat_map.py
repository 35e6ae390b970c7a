"""Who did how much to whom: rows suffer, columns cause, a cell's colour is its share of the whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from greenlane.page.html import Html, element
from greenlane.page.quantities import duration, share
from greenlane.page.svg import drawing, fitted, label, rect

__all__ = ["heat_map"]

_LEFT: Final = 250
_HEAD: Final = 150
_CELL: Final = 66
_ROW: Final = 30


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Mapping[tuple[str, str], float],
    title: str,
    said: Callable[[float], str] = duration,
) -> Html:
    """The map; a cell that is not in `cells` stays empty.

    Args:
        cells: value by (row, column), >= 0.
    """
    whole = sum(cells.values()) or 1.0
    most = max(cells.values(), default=0) or 1.0
    parts = [_column(number, name) for number, name in enumerate(columns)]
    for place, row in enumerate(rows):
        y = _HEAD + place * _ROW
        parts.append(label(_LEFT - 10, y + 19, row, "", "end", room=_LEFT - 12))
        for number, column in enumerate(columns):
            value = cells.get((row, column), 0.0)
            x = _LEFT + number * _CELL
            parts.append(rect(x + 1, y + 1, _CELL - 2, _ROW - 2, "cell-empty"))
            if value <= 0:
                continue
            # The root: small shares stay visible beside a dominating one; the number says what the colour blurs.
            depth = 0.08 + 0.84 * (value / most) ** 0.5
            told = f"{row} waited {said(value)} for {column}: {share(value / whole)} of all"
            parts.append(rect(x + 1, y + 1, _CELL - 2, _ROW - 2, "cell", told, f' fill-opacity="{depth:.2f}"'))
            style = "on" if depth > 0.55 else ""
            parts.append(label(x + _CELL / 2, y + 19, said(value), style, "middle"))
    width = _LEFT + len(columns) * _CELL + 90
    return drawing(width, _HEAD + len(rows) * _ROW + 6, parts, title)


def _column(number: int, name: str) -> Html:
    x, y = _LEFT + number * _CELL + _CELL / 2 + 4, _HEAD - 8
    turned = f' transform="rotate(-40 {x:.0f} {y:.0f})"'
    text = label(x, y, fitted(name, 205))
    return Html(text.replace("<text", f"<text{turned}", 1).replace("</text>", f"{element('title', name)}</text>"))
