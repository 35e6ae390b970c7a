"""Values with their intervals: a dot, and a bar from the lowest to the highest it may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from greenlane_tools.page.axis import Axis, grid
from greenlane_tools.page.html import Html, shown
from greenlane_tools.page.svg import LETTER, circle, drawing, label, line

#: Where the axis given to `whiskers` must begin and end.
LEFT: Final = 250
RIGHT: Final = 746
_WIDTH: Final = 896
_NAMES: Final = 84
_ROW: Final = 22


class Whisker(NamedTuple):
    """One value; `low` = `high` = `at` draws a dot alone."""

    name: str
    low: float
    at: float
    high: float
    #: Printed on the right, the aside in the soft colour.
    said: str
    aside: str = ""
    strong: bool = False
    #: In the colour of failure.
    late: bool = False


def whiskers(
    groups: Mapping[str, Sequence[Whisker]],
    axis: Axis,
    title: str,
    said: Callable[[float], str],
    *,
    mark: float | None = None,
) -> Html:
    """Rows by group.

    Args:
        groups: rows by the group's name.
        axis: from `LEFT` to `RIGHT`.
        said: how a tick's value reads.
        mark: a value that all are measured against, with a line of its own; None = there is none.
    """
    # A group's name stands beside its rows, or over them when it is long.
    above = any(len(name) * LETTER > _NAMES - 10 for name in groups)
    head = _ROW if above else 0
    bottom = 18.0 + sum(len(rows) * _ROW + head + 14 for rows in groups.values())
    parts: list[str] = [grid(axis, 8, bottom, said)]
    if mark is not None:
        parts.append(line(axis.at(mark), 4, axis.at(mark), bottom, "mark"))
    y = 18.0
    for name, rows in groups.items():
        parts.append(label(0, y + 4, name, "soft", room=_WIDTH if above else _NAMES))
        y += head
        for row in rows:
            parts.append(_whisker(row, y, axis, 18 if above else _NAMES))
            y += _ROW
        y += 14
    return drawing(_WIDTH, bottom + 24, parts, title)


def _whisker(row: Whisker, y: float, axis: Axis, left: float) -> Html:
    ours = " ours" if row.strong else " late" if row.late else ""
    aside = f'<tspan class="soft" dx="5">{shown(row.aside)}</tspan>' if row.aside else ""
    return Html(
        label(left, y + 4, row.name, ours.strip(), room=LEFT - left - 10)
        + line(axis.at(row.low), y, axis.at(row.high), y, f"whisker{ours}")
        + circle(axis.at(row.at), y, 4.5, f"dot{ours}", f"{row.name} {row.said} {row.aside}".strip())
        + f'<text x="{RIGHT + 14}" y="{y + 4:.1f}">{shown(row.said)}{aside}</text>'
    )
