"""SVG by itself: one file, its own colours for light and dark, nothing fetched."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

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
