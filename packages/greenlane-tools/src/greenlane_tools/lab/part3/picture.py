"""A chart outside a page: an SVG with its own styles, as notebooks show it."""

from __future__ import annotations

import re
from importlib import resources

from greenlane_tools.page.html import Html

__all__ = ["Picture", "picture"]


class Picture:
    """An SVG that Jupyter draws by itself."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg


def picture(chart: Html) -> Picture:
    """The chart with the page's colours for light paper; `chart` comes from `page.charts` or `charts`."""
    size = re.search(r'viewBox="0 0 (\d+) (\d+)"', chart)
    assert size is not None, "a drawing has a size"
    width, height = size.groups()
    root = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
    ground = f'<style>{_styles()}</style><rect width="{width}" height="{height}" fill="#ffffff"/>'
    head, inside = chart.replace("<svg", root, 1).split(">", 1)
    return Picture(f"{head}>{ground}{inside}")


def _styles() -> str:
    """Of the page's styles the colours and what is about drawings."""
    lines = (resources.files("greenlane_tools.page") / "page.css").read_text(encoding="utf-8").splitlines()
    colours = lines[: lines.index("}") + 1]
    return "\n".join([*colours, *(line for line in lines if line.startswith(("svg", ".k-")))])
