"""What drawings are made of: SVG elements as text, in units of about one pixel."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from greenlane_tools.page.html import Html, element, joined, shown

#: Mean width of a letter of the 12 px text that charts use; names are cut by it.
LETTER: Final = 6.9


def drawing(
    width: float, height: float, parts: Iterable[str], title: str, *, style: str = "", described: str = ""
) -> Html:
    """The drawing itself.

    Args:
        width, height: its own units; the page scales it to the column, never above its natural size.
        title: what it shows, for screen readers.
        style: more classes.
        described: its content in words, for the same readers; "" = the title says enough.
    """
    inside = (element("desc", described), *parts) if described else parts
    return Html(
        f'<svg class="chart{" " + style if style else ""}" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'style="--natural:{width:.0f}px" role="img" aria-label="{shown(title)}">{joined(inside)}</svg>'
    )


def label(x: float, y: float, said: str, style: str = "", anchor: str = "", room: float = 0) -> Html:
    """A text; `room` > 0 cuts it to that width, and the whole of it is what the pointer reads."""
    cut = fitted(said, room) if room else said
    inside = shown(cut) + (f"<title>{shown(said)}</title>" if cut != said else "")
    classes = f' class="{style}"' if style else ""
    end = f' text-anchor="{anchor}"' if anchor else ""
    return Html(f'<text{classes} x="{x:.1f}" y="{y:.1f}"{end}>{inside}</text>')


def rect(x: float, y: float, width: float, height: float, style: str, said: str = "", more: str = "") -> Html:
    """A bar; `said` appears under the pointer, `more` are further attributes."""
    shape = f'<rect class="{style}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{height:.1f}"{more}'
    return Html(f"{shape}><title>{shown(said)}</title></rect>" if said else f"{shape}/>")


def line(x0: float, y0: float, x1: float, y1: float, style: str) -> Html:
    """A straight line."""
    return Html(f'<line class="{style}" x1="{x0:.1f}" x2="{x1:.1f}" y1="{y0:.1f}" y2="{y1:.1f}"/>')


def path(d: str, style: str, said: str = "") -> Html:
    """A path; `d` is SVG's own notation."""
    return Html(f'<path class="{style}" d="{d}"' + (f"><title>{shown(said)}</title></path>" if said else "/>"))


def circle(x: float, y: float, radius: float, style: str, said: str = "") -> Html:
    """A dot."""
    shape = f'<circle class="{style}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"'
    return Html(f"{shape}><title>{shown(said)}</title></circle>" if said else f"{shape}/>")


def group(parts: Iterable[str], **attributes: str | None) -> Html:
    """Parts that belong together."""
    return element("g", joined(parts), **attributes)


def fitted(said: str, room: float, letter: float = LETTER) -> str:
    """The text, or as much of its begin and end as fits: routes differ at either."""
    most = int(room / letter)
    if len(said) <= most:
        return said
    if most < 3:
        return ""
    tail = (most - 1) // 3
    return f"{said[: most - 1 - tail]}…{said[len(said) - tail :] if tail else ''}"
