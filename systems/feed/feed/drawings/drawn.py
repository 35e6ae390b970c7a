"""The drawings as SVG: stages of a request, a service map, the ladder."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from .rows import OURS, Step

# How many classes s0, s1 … there are, each of another colour.
COLOURS: Final = 14
_STYLE: Final = """
:root { --ink: #1b2320; --soft: #5f6b66; --line: #dfe4de; --paper: #ffffff; --ours: #0f7a56; --other: #7b8794;
  --cpu: #2f6fb3; --io: #9fcfc8; --wait: #c8402f; --s0: #8a4fa3; --s1: #3d8f86; --s2: #a97b12; --s3: #2f6fb3;
  --s4: #c8702f; --s5: #12805c; --s6: #b84478; --s7: #5d5fa8; --s8: #8d5a3c; --s9: #7b8794;
  --s10: #d2b6de; --s11: #5fa32e; --s12: #e3a72f; --s13: #27465f; }
@media (prefers-color-scheme: dark) { :root { --ink: #e9edea; --soft: #9aa6a0; --line: #2d3632; --paper: #161b19;
  --ours: #3ecf9a; --other: #8f9ba6; --cpu: #6aa8e8; --io: #2f5f59; --wait: #ff7a66; --s0: #c58fdd; --s1: #62bfb3;
  --s2: #d9ae45; --s3: #6aa8e8; --s4: #f29a5e; --s5: #3ecf9a; --s6: #ec86b1; --s7: #9a9ce6; --s8: #c6977a;
  --s9: #8f9ba6; --s10: #6d4b80; --s11: #93d465; --s12: #f4cf7c; --s13: #b9d3ea; } }
text { font: 12.5px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
.title { font-size: 15px; font-weight: 650; } .soft { fill: var(--soft); } .strong { font-weight: 650; }
.end { text-anchor: end; } .middle { text-anchor: middle; }
.line { stroke: var(--line); } .wire { stroke: var(--soft); stroke-width: 1.2; fill: none; }
.paper { fill: var(--paper); } .ours { fill: var(--ours); } .other { fill: var(--other); }
.cpu { fill: var(--cpu); } .io { fill: var(--io); } .wait { fill: var(--wait); }
.ring { fill: none; stroke: var(--soft); stroke-dasharray: 3 3; }
""" + "".join(f".s{number} {{ fill: var(--s{number}); }} " for number in range(COLOURS))


def drawing(width: float, height: float, title: str, parts: Iterable[str]) -> str:
    """The whole file; the title is also what those are told who do not see it."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{escape(title)}"><style>{_STYLE}</style>\n'
        + f'<rect class="paper" width="{width:g}" height="{height:g}" rx="10"/>\n'
        + text(20, 28, title, "title")
        + "\n"
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def text(x: float, y: float, said: str, style: str = "") -> str:
    """A line of words."""
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}">{escape(said)}</text>'


def bar(x: float, y: float, width: float, height: float, style: str, said: str = "") -> str:
    """A rectangle; `said` appears under the pointer."""
    shape = f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{height:.1f}"'
    return f"{shape}><title>{escape(said)}</title></rect>" if said else f"{shape}/>"


def disc(x: float, y: float, radius: float, style: str, said: str = "") -> str:
    """A circle; `said` appears under the pointer."""
    shape = f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.2f}"'
    return f"{shape}><title>{escape(said)}</title></circle>" if said else f"{shape}/>"


def line(x0: float, y0: float, x1: float, y1: float, style: str = "line") -> str:
    """A straight line."""
    return f'<line class="{style}" x1="{x0:.1f}" y1="{y0:.1f}" x2="{x1:.1f}" y2="{y1:.1f}"/>'


def said_ms(value: float) -> str:
    """Milliseconds with as many digits as mean something."""
    return f"{value:.0f} ms" if value >= 10 else f"{value:.1f} ms" if value >= 1 else f"{value:.2f} ms"


def step_of(longest: float, most: int = 6) -> float:
    """A round distance of gridlines: at most `most` of them up to `longest`."""
    step = 10.0**-3
    while True:
        for factor in (1, 2, 5):
            if longest / (step * factor) <= most:
                return step * factor
        step *= 10


# --- Where a request's time goes, variant by variant: its stages one after the other, and what they are made of.

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
        parts += [bar(x, y - 10, 11, 11, _style(number)), text(x + 17, y, name)]
    for number, (part, said) in enumerate(_PARTS.items()):
        x, y = 20 + 138 * number, top + 20 * lines
        parts += [bar(x, y - 10, 11, 11, part), text(x + 17, y, said)]
    return drawing(_WIDTH, height, "A request's stages: wall time, and what it is made of", parts)


def _lines(step: Step, names: Sequence[str], y: float, scale: float) -> list[str]:
    parts = [text(_LEFT - 14, y + 17, step.name, "end")]
    x = float(_LEFT)
    for name, row in step.stages.items():
        width = row["wall_ms"] * scale
        parts.append(bar(x, y, width, 14, _style(names.index(name)), f"{name}: {said_ms(row['wall_ms'])}"))
        x += width
    parts.append(text(x + 8, y + 17, said_ms(_wall_ms(step)), "strong"))
    x = float(_LEFT)
    for part, said in _PARTS.items():
        value = sum(row.get(f"{part}_ms", 0.0) for row in step.stages.values())
        parts.append(bar(x, y + 16, value * scale, 8, part, f"{said}: {said_ms(value)}"))
        x += value * scale
    return parts


def _wall_ms(step: Step) -> float:
    return sum(row["wall_ms"] for row in step.stages.values())


def _style(number: int) -> str:
    return f"s{number % COLOURS}"


# --- The service map: who calls whom, with circles whose areas are CPU; both ends of the ladder on one scale.

_MAP_WIDTH, _HEIGHT, _HALF = 900, 480, 450
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
    parts.append(text(20, _HEIGHT - 10, "area = CPU of a request; dashed: not measured", "soft"))
    return drawing(_MAP_WIDTH, _HEIGHT, "Service map: who computes for a request", parts)


def radius(cpu_ms: float, largest_ms: float) -> float:
    """So that areas are to each other as CPU is."""
    return _RADIUS * math.sqrt(cpu_ms / largest_ms)


def _half(step: Step, left: float, largest_ms: float) -> list[str]:
    parts = [text(left + 20, 54, step.name, "strong")]
    x0, y0, _, _ = _PLACES["service"]
    there = {name: place for name, place in _PLACES.items() if name != "workers" or step.parts_cpu_ms.get(name)}
    for x, y, _, _ in list(there.values())[1:]:
        parts.append(line(left + x0, y0, left + x, y, "wire"))
    for name, (x, y, said, above) in there.items():
        cpu_ms = step.parts_cpu_ms.get(name)
        if cpu_ms is None:
            parts += [disc(left + x, y, 22, "paper"), disc(left + x, y, 22, "ring")]
            parts.append(text(left + x, y - 30 if above else y + 38, said, "soft middle"))
            continue
        size = radius(cpu_ms, largest_ms)
        style = "ours" if step.name == OURS and name in ("service", "workers") else "other"
        parts.append(disc(left + x, y, size, style, f"{said}: {said_ms(cpu_ms)} of CPU a request"))
        beside = y - size - 8 if above else y + size + 17
        parts.append(text(left + x, beside, f"{said}, {said_ms(cpu_ms)}", "middle"))
    return parts


# --- p95 before and after each step: the variant's, and `greenlane`'s at the same rate beside it.

_STEP_LEFT, _STEP_RIGHT, _STEP_LINE = 150, 220, 34


def ladder(steps: Sequence[Step]) -> str:
    """A line for each step; the shorter the way to the left, the better."""
    shown = [step for step in steps if step.name != OURS and step.ours_p95_ms is not None]
    longest = max([step.p95_ms for step in shown] + [step.ours_p95_ms or 0 for step in shown] + [1.0])
    room = _WIDTH - _STEP_LEFT - _STEP_RIGHT
    height = 96 + _STEP_LINE * len(shown)
    gap = step_of(longest)
    parts = []
    for number in range(int(longest / gap) + 1):
        x = _STEP_LEFT + room * number * gap / longest
        parts += [line(x, 48, x, height - 42), text(x, height - 24, f"{number * gap:g} ms", "soft middle")]
    for number, step in enumerate(shown):
        parts += _line(step, 66 + _STEP_LINE * number, room / longest)
    parts.append(text(20, height - 8, "grey: the variant; green: greenlane, at the same rate beside it", "soft"))
    return drawing(_WIDTH, height, "p95 of a request, before and after", parts)


def _line(step: Step, y: float, scale: float) -> list[str]:
    ours = step.ours_p95_ms or 0.0
    before, after = _STEP_LEFT + step.p95_ms * scale, _STEP_LEFT + ours * scale
    rate = f" at {step.per_s:.3g} per s" if step.per_s else ""
    ratio = f"{said_ms(step.p95_ms)} → {said_ms(ours)}"
    if ours:
        ratio += f" ({step.p95_ms / ours:.1f} ×)"
    return [
        text(_STEP_LEFT - 14, y + 4, step.name, "end"),
        line(min(before, after), y, max(before, after), y, "wire"),
        disc(before, y, 6, "other", f"{step.name}{rate}: p95 {said_ms(step.p95_ms)}"),
        disc(after, y, 6, "ours", f"greenlane{rate}: p95 {said_ms(ours)}"),
        text(_WIDTH - _STEP_RIGHT + 20, y + 4, ratio, "strong"),
    ]
