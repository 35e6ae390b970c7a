"""One job's life: a lane for each thread, greenlet or task that worked for it, time to the right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from greenlane_tools.page.axis import LinearAxis, grid, time_step_ns
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import duration
from greenlane_tools.page.svg import LETTER, drawing, label, line, rect

_LEFT: Final = 150
_RIGHT: Final = 950
_ROW: Final = 24
#: Lanes and stretches beyond these are counted, not drawn: nobody tells them apart, and pages have a size.
MOST_LANES: Final = 12
MOST_STRETCHES: Final = 240


class Stretch(NamedTuple):
    """A part of a lane; times in ns from the job's arrival."""

    lane: str
    #: Its class is `k-<kind>`.
    kind: str
    from_ns: float
    to_ns: float
    said: str


def waterfall(stretches: Sequence[Stretch], length_ns: float, title: str, deadline_ns: float = 0) -> Html:
    """The lanes in order of their first stretch.

    Args:
        length_ns: of the axis: the job's latency.
        deadline_ns: from the arrival; 0 = none.
    """
    lanes = list(dict.fromkeys(each.lane for each in sorted(stretches, key=lambda each: each.from_ns)))
    drawn = {lane: number for number, lane in enumerate(lanes[:MOST_LANES])}
    # The longest ones when there are too many; a gap says less than a stretch left out, so its count is printed.
    chosen = sorted((each for each in stretches if each.lane in drawn), key=lambda each: each.from_ns - each.to_ns)
    left_out = len(stretches) - len(chosen[:MOST_STRETCHES])
    axis = LinearAxis(0, max(length_ns, 1), _LEFT, _RIGHT, time_step_ns(max(length_ns, 1)))
    due = 0 < deadline_ns < length_ns
    top = 20 if due else 6
    bottom = top + _ROW * max(1, len(drawn))
    parts: list[str] = [grid(axis, top - 4, bottom)]
    parts += [label(0, top + _ROW * n + 13, lane, "soft", room=_LEFT - 10) for lane, n in drawn.items()]
    for each in sorted(chosen[:MOST_STRETCHES], key=lambda each: (each.lane, each.from_ns)):
        parts.append(_stretch(each, top + _ROW * drawn[each.lane], axis))
    if due:
        parts.append(line(axis.at(deadline_ns), 0, axis.at(deadline_ns), bottom, "deadline"))
        parts.append(label(axis.at(deadline_ns) + 4, 10, "deadline", "late"))
    if left_out:
        parts.append(label(_RIGHT, bottom + 32, f"{left_out} short stretches not drawn", "soft", "end"))
    return drawing(_RIGHT + 20, bottom + (38 if left_out else 22), parts, title)


def _stretch(each: Stretch, y: float, axis: LinearAxis) -> Html:
    x0, x1 = axis.at(each.from_ns), axis.at(each.to_ns)
    said = f"{each.said}, {duration(each.to_ns - each.from_ns)} from {duration(each.from_ns)} on"
    bar = rect(x0, y, max(x1 - x0, 0.6), _ROW - 8, f"k-{each.kind}", said)
    room = x1 - x0 - 8
    # A cut text must still say who: the whole of it is under the pointer.
    said_in = room > 130 or room > len(each.said) * LETTER
    return Html(bar + label(x0 + 4, y + 12, each.said, "on", room=room)) if said_in else bar
