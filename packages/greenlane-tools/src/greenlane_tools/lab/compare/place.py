"""An endpoint of a cell, and what each side did there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from greenlane_tools.lab.compare.repetitions import Repetitions
from greenlane_tools.lab.compare.subject import Cell, said

__all__ = ["Place"]


@dataclass(frozen=True)
class Place:
    """An endpoint of a cell, and what each side did there, by its name; A first."""

    cell: Cell
    endpoint: str
    sides: Mapping[str, Repetitions]
    # All endpoints together: of that mixture percentiles mean nothing.
    mixture: bool = False

    @property
    def name(self) -> str:
        """In words."""
        return " · ".join(filter(None, (said(self.cell), "all endpoints" if self.mixture else self.endpoint)))
