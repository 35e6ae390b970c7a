"""The service map: who calls whom, with circles whose areas are CPU; both ends of the ladder on one scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from . import svg
from .rows import OURS, Step

_WIDTH, _HEIGHT, _HALF = 900, 480, 450
# Of the largest circle.
_RADIUS: Final = 70.0
# Where each part stands in its half, what it is called, and whether its name stands above it.
_PLACES: Final[Mapping[str, tuple[float, float, str, bool]]] = {
    "service": (130, 176, "service", True),
    "workers": (130, 352, "its workers", False),
    "history": (350, 106, "history store", True),
    "models": (350, 216, "4 models", False),
    "shards": (350, 350, "3 shards", False),
}


def service_map(steps: Sequence[Step], before: str = "") -> str:
    """The map of the variant `before` (else the one that takes the most CPU) beside that of `greenlane`."""
    known = [step for step in steps if step.parts_cpu_ms]
    others = [step for step in known if step.name != OURS]
    ours = [step for step in known if step.name == OURS]
    named = [step for step in others if step.name == before]
    shown = [*(named or sorted(others, key=lambda step: -sum(step.parts_cpu_ms.values())))[:1], *ours[:1]]
    largest = max([value for step in shown for value in step.parts_cpu_ms.values()] + [1e-6])
    parts = []
    for number, step in enumerate(shown):
        parts += _half(step, _HALF * number, largest)
    parts.append(svg.text(20, _HEIGHT - 10, "area = CPU of a request; dashed: not measured", "soft"))
    return svg.drawing(_WIDTH, _HEIGHT, "Service map: who computes for a request", parts)


def radius(cpu_ms: float, largest_ms: float) -> float:
    """So that areas are to each other as CPU is."""
    return _RADIUS * math.sqrt(cpu_ms / largest_ms)


def _half(step: Step, left: float, largest_ms: float) -> list[str]:
    parts = [svg.text(left + 20, 54, step.name, "strong")]
    x0, y0, _, _ = _PLACES["service"]
    there = {name: place for name, place in _PLACES.items() if name != "workers" or step.parts_cpu_ms.get(name)}
    for x, y, _, _ in list(there.values())[1:]:
        parts.append(svg.line(left + x0, y0, left + x, y, "wire"))
    for name, (x, y, said, above) in there.items():
        cpu_ms = step.parts_cpu_ms.get(name)
        if cpu_ms is None:
            parts += [svg.disc(left + x, y, 22, "paper"), svg.disc(left + x, y, 22, "ring")]
            parts.append(svg.text(left + x, y - 30 if above else y + 38, said, "soft middle"))
            continue
        size = radius(cpu_ms, largest_ms)
        style = "ours" if step.name == OURS and name in ("service", "workers") else "other"
        parts.append(svg.disc(left + x, y, size, style, f"{said}: {svg.said_ms(cpu_ms)} of CPU a request"))
        beside = y - size - 8 if above else y + size + 17
        parts.append(svg.text(left + x, beside, f"{said}, {svg.said_ms(cpu_ms)}", "middle"))
    return parts
