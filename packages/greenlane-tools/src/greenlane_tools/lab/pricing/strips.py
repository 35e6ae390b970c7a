"""The strip of offers: when each bike request was due, and whether its offer came in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from greenlane_tools.lab.pricing.conclusion import OURS
from greenlane_tools.page.html import Html
from greenlane_tools.page.svg import drawing, label, line, path


class StripPlace:
    """Where the strip's time axis lies, in the SVG's own units; the replay needs it too."""

    left: Final = 140
    width: Final = 760
    row: Final = 30


def strips(ticks: Mapping[str, Sequence[tuple[float, bool]]], seconds: float, begins_s: Mapping[float, float]) -> Html:
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
        parts.append(label(x + 4, 9, f"{utilisation:g} CPU", "soft"))
        parts.append(line(x, 0, x, bottom, "base"))
    for number, (name, marks) in enumerate(ticks.items()):
        parts += _strip(name, marks, top + place.row * number, seconds)
    for second in range(0, int(seconds) + 1, 10):
        x = place.left + second / seconds * place.width
        parts.append(label(x, bottom + 14, f"{second} s", "soft", "middle"))
    cursor = f'<line class="cursor" x1="0" x2="0" y1="0" y2="{bottom}" transform="translate({place.left} 0)"/>'
    parts.append(Html(cursor))
    width = place.left + place.width + 150
    return drawing(width, bottom + 20, parts, "bike requests over time by contender, offers in time and missing")


def _strip(name: str, marks: Sequence[tuple[float, bool]], y: float, seconds: float) -> list[Html]:
    left, width = StripPlace.left, StripPlace.width
    parts = [label(0, y + 17, name, "ours" if name == OURS else "", room=left - 10)]
    for late in (False, True):
        d = "".join(f"M{left + at / seconds * width:.1f} {y}v22" for at, missed in marks if missed == late)
        parts.append(path(d, "tick-late" if late else "tick-ok"))
    missed = sum(late for _, late in marks)
    said = f"{missed} of {len(marks)} missing"
    return [*parts, label(left + width + 12, y + 17, said, "late" if missed else "soft")]
