"""A run as lines of text, a character a cell, with a ruler in milliseconds above."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from offers.reasoning.cells import CELL_MS, Cell, Lived

__all__ = ["LEGEND", "drawn"]

_SIGNS: Final = {Cell.CPU: "█", Cell.NETWORK: "·", Cell.WAIT: "░"}
LEGEND: Final = "█ has the CPU   · its network   ░ ready, and somebody else has the CPU"
#: Cells between two numbers of the ruler.
_EVERY: Final = 10
_MARGIN: Final = 12


def drawn(lives: Sequence[Lived], marked: int = 0) -> str:
    """A line a request; the `marked` one (from 1) says what its network was and what it measured. 0 = none."""
    length = max(life.request.arrives + len(life.cells) for life in lives)
    ruler = "".join(f"{cell * CELL_MS:<{_EVERY}}" for cell in range(0, length + 1, _EVERY))
    lines = [f"{'ms':>{_MARGIN - 1}} {ruler}".rstrip()]
    for number, life in enumerate(lives, 1):
        cells = " " * life.request.arrives + "".join(_SIGNS[cell] for cell in life.cells)
        said = ""
        if number == marked:
            [(network, seen)] = life.seen
            said = f"   network {network * CELL_MS} ms, measured {seen * CELL_MS} ms"
        lines.append(f"{f'request {number}':>{_MARGIN - 1}} {cells}{said}")
    return "\n".join(lines)
