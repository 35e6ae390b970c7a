"""p95 before and after each step: the variant's, and `greenlane`'s at the same rate beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from . import svg
from .rows import OURS, Step

_WIDTH: Final = 860
_LEFT, _RIGHT, _LINE = 150, 220, 34


def ladder(steps: Sequence[Step]) -> str:
    """A line for each step; the shorter the way to the left, the better."""
    shown = [step for step in steps if step.name != OURS and step.ours_p95_ms is not None]
    longest = max([step.p95_ms for step in shown] + [step.ours_p95_ms or 0 for step in shown] + [1.0])
    room = _WIDTH - _LEFT - _RIGHT
    height = 96 + _LINE * len(shown)
    gap = svg.step_of(longest)
    parts = []
    for number in range(int(longest / gap) + 1):
        x = _LEFT + room * number * gap / longest
        parts += [svg.line(x, 48, x, height - 42), svg.text(x, height - 24, f"{number * gap:g} ms", "soft middle")]
    for number, step in enumerate(shown):
        parts += _line(step, 66 + _LINE * number, room / longest)
    parts.append(svg.text(20, height - 8, "grey: the variant; green: greenlane, at the same rate beside it", "soft"))
    return svg.drawing(_WIDTH, height, "p95 of a request, before and after", parts)


def _line(step: Step, y: float, scale: float) -> list[str]:
    ours = step.ours_p95_ms or 0.0
    before, after = _LEFT + step.p95_ms * scale, _LEFT + ours * scale
    rate = f" at {step.per_s:.3g} per s" if step.per_s else ""
    ratio = f"{svg.said_ms(step.p95_ms)} → {svg.said_ms(ours)}"
    if ours:
        ratio += f" ({step.p95_ms / ours:.1f} ×)"
    return [
        svg.text(_LEFT - 14, y + 4, step.name, "end"),
        svg.line(min(before, after), y, max(before, after), y, "wire"),
        svg.disc(before, y, 6, "other", f"{step.name}{rate}: p95 {svg.said_ms(step.p95_ms)}"),
        svg.disc(after, y, 6, "ours", f"greenlane{rate}: p95 {svg.said_ms(ours)}"),
        svg.text(_WIDTH - _RIGHT + 20, y + 4, ratio, "strong"),
    ]
