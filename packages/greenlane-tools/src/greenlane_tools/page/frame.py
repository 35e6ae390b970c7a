"""The frame of a plot: two axes with their lines, values and titles, marks, and names beside what they name."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from greenlane_tools.page.axis import Axis, LinearAxis, LogAxis, round_step
from greenlane_tools.page.html import Html, joined
from greenlane_tools.page.quantities import amount
from greenlane_tools.page.svg import LETTER, label, line, path, rect

Place = tuple[float, float]

#: Colours that lines and points can have: classes s0 to s7.
TONES: Final = 8
#: The tone of what stands out: the green of everything that is ours.
STRONG: Final = 2
#: Between the base lines of names below each other.
_NAME_ROW: Final = 14
#: Names longer than this are cut.
_MOST_NAME: Final = 190
_HEAD: Final = 30
#: A reference or a mark widens an axis to at most this times what was measured: it must not flatten that.
_WIDENED: Final = 1.3
_WIDENED_LOG: Final = 2.0


class Scale(NamedTuple):
    """One quantity and how its axis runs."""

    title: str
    #: How a value reads, with its unit.
    said: Callable[[float], str] = amount
    #: Equal factors instead of equal steps; values <= 0 are then left out.
    log: bool = False
    #: Ends of the axis; None = those of the values (an upright linear axis begins at 0).
    low: float | None = None
    high: float | None = None
    #: Where lines stand; None = at round values.
    ticks: Sequence[float] | None = None
    #: Between the lines of a linear axis, given a fifth of it.
    step: Callable[[float], float] = round_step


class Mark(NamedTuple):
    """A value worth a line across: a knee, a deadline, a fault."""

    at: float
    said: str
    #: End of a stretch that is shaded instead; None = one line.
    until: float | None = None
    #: In the colour of failure.
    late: bool = False


@dataclass(frozen=True)
class Frame:
    """Where a plot is drawn; `x` runs from `left` to `right`, `y` from `bottom` up to `top`."""

    x: Axis
    y: Axis
    left: float
    right: float
    top: float
    bottom: float

    def line(self, points: Sequence[tuple[float, float]], style: str, said: str = "") -> Html:
        """A line through values, cut where it leaves the frame; it is interrupted where a value is no number."""
        pieces = [self._piece(piece) for piece in self._whole(points)]
        d = "".join(pieces)
        return path(d, style, said) if d else Html("")

    def area(self, points: Sequence[tuple[float, float]], style: str, said: str = "") -> Html:
        """A filled outline through values; beyond the frame it runs along its edge."""
        places = [(self.x.at(x), self.y.at(y)) for x, y in points if self._number(x, y)]
        return path(f"M{_outline(places)}Z", style, said) if len(places) > 2 else Html("")

    def inside(self, x: float, y: float) -> bool:
        """Whether a value lies within both axes."""
        return self._number(x, y) and self.x.low <= x <= self.x.high and self.y.low <= y <= self.y.high

    def ground(self, x: Scale, y: Scale) -> Html:
        """Lines at round values, what they are worth, and the titles."""
        parts, last = [], -math.inf
        for tick in _ticks(x, self.x):
            at, said = self.x.at(tick), x.said(tick)
            parts.append(line(at, self.top, at, self.bottom, "grid"))
            half = len(said) * LETTER / 2
            if at - half - last >= 8:
                last = at + half
                parts.append(label(at, self.bottom + 17, said, "soft", "middle"))
        below = math.inf
        for tick in _ticks(y, self.y):
            at = self.y.at(tick)
            parts.append(line(self.left, at, self.right, at, "grid"))
            if below - at >= 13:
                below = at
                parts.append(label(self.left - 8, at + 4, y.said(tick), "soft", "end"))
        parts.append(line(self.left, self.bottom, self.right, self.bottom, "base"))
        parts.append(label(0, 12, y.title, "soft strong"))
        parts.append(label((self.left + self.right) / 2, self.bottom + 37, x.title, "soft strong", "middle"))
        return joined(parts)

    def upright(self, marks: Iterable[Mark]) -> Html:
        """Lines from top to bottom; their labels stand above the frame, in rows where they would meet."""
        parts = []
        for mark, row in _rows([mark for mark in marks if self._within(mark, self.x)], self.x, self.right):
            at, until = self.x.at(mark.at), self.x.at(mark.at if mark.until is None else mark.until)
            if mark.until is not None:
                parts.append(rect(at, self.top, until - at, self.bottom - self.top, _shade(mark), mark.said))
            y = self.top - 6 - row * _NAME_ROW
            parts.append(line(at, y + 3, at, self.bottom, _mark(mark)))
            place, anchor = _label_place(mark, at, self.right)
            parts.append(label(place, y, mark.said, "late" if mark.late else "soft", anchor))
        return joined(parts)

    def level(self, marks: Iterable[Mark]) -> Html:
        """Lines from left to right; their labels belong among the names at the right."""
        parts = []
        for mark in marks:
            if not self._within(mark, self.y):
                continue
            at = self.y.at(mark.at)
            if mark.until is not None:
                end = self.y.at(mark.until)
                parts.append(rect(self.left, min(at, end), self.right - self.left, abs(at - end), _shade(mark)))
            parts.append(line(self.left, at, self.right, at, _mark(mark)))
        return joined(parts)

    def names(self, ends: Sequence[tuple[str, str, Place]]) -> Html:
        """Names at the right, each beside where its line ends and clear of the others.

        Args:
            ends: name, its classes, the place of the line's end.
        """
        heights = apart([place[1] for _, _, place in ends], self.top, self.bottom, _NAME_ROW)
        parts = []
        for (name, style, (x, y)), height in zip(ends, heights, strict=True):
            if abs(height - y) > 3 or self.right - x > 3:
                parts.append(
                    path(f"M{x:.1f} {y:.1f}L{self.right:.1f} {y:.1f}L{self.right + 9:.1f} {height:.1f}", "lead")
                )
            parts.append(label(self.right + 12, height + 4, name, style, room=_MOST_NAME))
        return joined(parts)

    def level_ends(self, marks: Iterable[Mark]) -> list[tuple[str, str, Place]]:
        """The labels of `level` for `names`."""
        seen = [mark for mark in marks if self._within(mark, self.y)]
        return [(mark.said, "late" if mark.late else "soft", (self.right, self.y.at(mark.at))) for mark in seen]

    @staticmethod
    def _within(mark: Mark, axis: Axis) -> bool:
        end = mark.at if mark.until is None else mark.until
        return mark.at <= axis.high and end >= axis.low

    def _number(self, x: float, y: float) -> bool:
        good = math.isfinite(x) and math.isfinite(y)
        return good and not (isinstance(self.x, LogAxis) and x <= 0) and not (isinstance(self.y, LogAxis) and y <= 0)

    def _whole(self, points: Sequence[tuple[float, float]]) -> list[list[Place]]:
        found: list[list[Place]] = [[]]
        for x, y in points:
            if self._number(x, y):
                found[-1].append((self.x.place(x), self.y.place(y)))
            elif found[-1]:
                found.append([])
        return found

    def _piece(self, places: Sequence[Place]) -> str:
        text, last = "", None
        for before, after in itertools.pairwise(places):
            cut = _cut(before, after, (self.left, self.right), (self.top, self.bottom))
            if cut is None:
                continue
            start, stop = cut
            text += f"L{_outline([stop])}" if start == last else f"M{_outline([start, stop])}"
            last = stop
        return text


def framed(
    x: Scale,
    y: Scale,
    measured: Sequence[tuple[float, float]],
    *,
    others: Sequence[tuple[float, float]] = (),
    names: Sequence[str] = (),
    upright: Sequence[Mark] = (),
    level: Sequence[Mark] = (),
    width: float = 960,
    height: float = 300,
) -> Frame:
    """A frame that holds the values.

    Args:
        measured: (x, y), any order: these decide how far the axes run.
        others: likewise, of what may raise the upright one a little and is cut beyond: references.
        names: what will stand at the right.
        width, height: of the drawing; it grows in height when the names need it. Below the frame are 44 for values
            and title.
    """
    aside = [*names, *(mark.said for mark in level)]
    room = min(max(map(len, aside), default=0) * LETTER, _MOST_NAME) + 18 if aside else 12
    ys = _range(y, [p[1] for p in measured], [*(p[1] for p in others), *(m.at for m in level)], from_zero=True)
    xs = _range(x, [p[0] for p in measured], [m.at for m in upright], from_zero=False)
    said = [y.said(tick) for tick in _ticks(y, _axis(y, *ys, 0, 1))]
    left = max(map(len, said), default=0) * LETTER + 14
    across = _axis(x, *xs, left, width - room)
    rows = max((row for _, row in _rows(upright, across, width - room)), default=-1) + 1
    top = _HEAD + rows * _NAME_ROW
    bottom = max(height - 44, top + len(aside) * _NAME_ROW)
    return Frame(across, _axis(y, *ys, bottom, top), left, width - room, top, bottom)


def apart(places: Sequence[float], top: float, bottom: float, gap: float) -> list[float]:
    """Places for labels: each near its own, in the same order, no two closer than `gap`, between `top` and `bottom` if
    there is room for all."""
    order = sorted(range(len(places)), key=lambda number: places[number])
    found = list(places)
    lowest = bottom
    for number in reversed(order):
        found[number] = min(places[number], lowest)
        lowest = found[number] - gap
    highest = top
    for number in order:
        found[number] = max(found[number], highest)
        highest = found[number] + gap
    return found


def tone(names: Iterable[str], strong: str = "") -> Mapping[str, int]:
    """A colour's number for each name in order; only `strong` gets ours."""
    free = [number for number in range(TONES) if number != STRONG or not strong]
    found: dict[str, int] = {}
    for name in names:
        if name == strong:
            found[name] = STRONG
        elif name not in found:
            found[name] = free[(len(found) - (strong in found)) % len(free)]
    return found


def _axis(scale: Scale, low: float, high: float, start: float, stop: float) -> Axis:
    if scale.log:
        return LogAxis(low, high, start, stop)
    return LinearAxis(low, high, start, stop, scale.step((high - low) / 5) if high > low else 0)


def _ticks(scale: Scale, axis: Axis) -> Sequence[float]:
    if scale.ticks is None:
        return axis.ticks()
    return sorted(tick for tick in scale.ticks if axis.low <= tick <= axis.high)


def _range(scale: Scale, measured: Sequence[float], others: Sequence[float], *, from_zero: bool) -> tuple[float, float]:
    def good(values: Iterable[float]) -> list[float]:
        return [value for value in values if math.isfinite(value) and (value > 0 or not scale.log)]

    base = good(measured) or good(others) or [1.0]
    low, high = min(base), max(base)
    most = _WIDENED_LOG if scale.log else _WIDENED
    wider = [value for value in good(others) if (low / most if scale.log else 0) <= value <= high * most]
    low, high = min([low, *wider]), max([high, *wider])
    if scale.log and from_zero:
        low, high = low * 0.85, high * 1.15
    elif from_zero:
        low, high = min(0.0, low), high + 0.05 * (high - min(0.0, low))
    low, high = low if scale.low is None else scale.low, high if scale.high is None else scale.high
    return (low, high) if high > low else (low, low * 2 if low > 0 else low + 1)


def _rows(marks: Iterable[Mark], axis: Axis, right: float) -> list[tuple[Mark, int]]:
    """Each mark with the row of its label, 0 nearest to the frame."""
    found, ends = [], list[float]()
    for mark in sorted(marks, key=lambda mark: mark.at):
        place, anchor = _label_place(mark, axis.at(mark.at), right)
        begin = place - (len(mark.said) * LETTER if anchor else 0)
        row = next((number for number, end in enumerate(ends) if begin >= end + 8), len(ends))
        ends[row : row + 1] = [begin + len(mark.said) * LETTER]
        found.append((mark, row))
    return found


def _label_place(mark: Mark, at: float, right: float) -> tuple[float, str]:
    return (at + 4, "") if at + 4 + len(mark.said) * LETTER <= right + 8 else (at - 4, "end")


def _mark(mark: Mark) -> str:
    return "deadline" if mark.late else "mark"


def _shade(mark: Mark) -> str:
    return "shade late" if mark.late else "shade"


def _outline(places: Sequence[Place]) -> str:
    return "L".join(f"{x:.1f} {y:.1f}" for x, y in places)


def _cut(start: Place, stop: Place, xs: Place, ys: Place) -> tuple[Place, Place] | None:
    """The part of a straight line within a box; None = there is none (Y.-D. Liang, B. Barsky, ACM ToG 3, 1984)."""
    (x, y), dx, dy = start, stop[0] - start[0], stop[1] - start[1]
    first, last = 0.0, 1.0
    for step, room in ((-dx, x - xs[0]), (dx, xs[1] - x), (-dy, y - ys[0]), (dy, ys[1] - y)):
        if step == 0:
            if room < 0:
                return None
            continue
        part = room / step
        first, last = (max(first, part), last) if step < 0 else (first, min(last, part))
    if first > last:
        return None
    return (
        start if first == 0 else (x + first * dx, y + first * dy),
        stop if last == 1 else (x + last * dx, y + last * dy),
    )
