"""Where a request's time goes, variant by variant: its stages one after the other, and what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from . import svg
from .rows import Step

_WIDTH: Final = 860
_LEFT, _RIGHT, _LINE = 150, 84, 40
_PARTS: Final = {"cpu": "CPU", "io": "I/O", "wait": "wait for the loop"}


def stages(steps: Sequence[Step]) -> str:
    """Two bars a variant on one scale: above by stage, below by CPU, I/O and wait."""
    shown = [step for step in steps if step.stages]
    names = list(dict.fromkeys(name for step in shown for name in step.stages))
    longest = max([_wall_ms(step) for step in shown] + [1.0])
    room = _WIDTH - _LEFT - _RIGHT
    per_line = 6
    lines = -(-len(names) // per_line)
    height = 92 + _LINE * len(shown) + 20 * (lines + 1)
    parts = []
    for number, step in enumerate(shown):
        parts += _lines(step, names, 50 + _LINE * number, room / longest)
    top = 66 + _LINE * len(shown)
    for number, name in enumerate(names):
        x, y = 20 + 138 * (number % per_line), top + 20 * (number // per_line)
        parts += [svg.bar(x, y - 10, 11, 11, _style(number)), svg.text(x + 17, y, name)]
    for number, (part, said) in enumerate(_PARTS.items()):
        x, y = 20 + 138 * number, top + 20 * lines
        parts += [svg.bar(x, y - 10, 11, 11, part), svg.text(x + 17, y, said)]
    return svg.drawing(_WIDTH, height, "A request's stages: wall time, and what it is made of", parts)


def _lines(step: Step, names: Sequence[str], y: float, scale: float) -> list[str]:
    parts = [svg.text(_LEFT - 14, y + 17, step.name, "end")]
    x = float(_LEFT)
    for name, row in step.stages.items():
        width = row["wall_ms"] * scale
        parts.append(svg.bar(x, y, width, 14, _style(names.index(name)), f"{name}: {svg.said_ms(row['wall_ms'])}"))
        x += width
    parts.append(svg.text(x + 8, y + 17, svg.said_ms(_wall_ms(step)), "strong"))
    x = float(_LEFT)
    for part, said in _PARTS.items():
        value = sum(row.get(f"{part}_ms", 0.0) for row in step.stages.values())
        parts.append(svg.bar(x, y + 16, value * scale, 8, part, f"{said}: {svg.said_ms(value)}"))
        x += value * scale
    return parts


def _wall_ms(step: Step) -> float:
    return sum(row["wall_ms"] for row in step.stages.values())


def _style(number: int) -> str:
    return f"s{number % svg.COLOURS}"
