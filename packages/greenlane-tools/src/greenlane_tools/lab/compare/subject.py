"""What is compared: the runs of one side by cell, and where they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from greenlane_tools.lab.samples import Samples

__all__ = ["CONTENDER", "REPETITION", "Cell", "Run", "Subject", "said"]

CONTENDER = "contender"
REPETITION = "repetition"
CELL = "cell"

#: What was varied, by name: (("utilisation_frac", 0.7),). Runs of one cell differ in their repetition alone.
Cell = tuple[tuple[str, str | int | float], ...]


@dataclass(frozen=True)
class Run:
    """One repetition, or one recording."""

    key: Mapping[str, str | int | float]
    # By scheduled send.
    samples: Samples
    # Of the load, in s; None = until the last scheduled send.
    seconds: float | None = None
    # Of the contender's processes; None = not measured.
    cpu_ms: float | None = None
    # Cores that processes which are no part of the run took meanwhile.
    others_cores: float = 0.0
    # What the load generator says of a schedule that it did not keep; "" = nothing.
    late: str = ""

    @property
    def contender(self) -> str:
        """Whose run it is; "" = unknown."""
        return str(self.key.get(CONTENDER, ""))

    @property
    def repetition(self) -> int:
        """Its number within the cell."""
        return int(self.key.get(REPETITION, 0))

    def cell(self, *, with_contender: bool) -> Cell:
        """What it is one repetition of."""
        left_out = {REPETITION} if with_contender else {REPETITION, CONTENDER}
        # A cell's name may begin with its contender's, which is no part of what was varied.
        key = dict(self.key)
        if CELL in key:
            key[CELL] = str(key[CELL]).removeprefix(f"{self.contender}-")
        return tuple((name, value) for name, value in key.items() if name not in left_out)


@dataclass(frozen=True)
class Subject:
    """One side."""

    # As it is printed.
    name: str
    # Folder or file: what two sides of one origin have measured, they have measured in turn.
    origin: str
    runs: Sequence[Run]
    # As the origin states it; empty = it does not.
    environment: Mapping[str, object] = field(default_factory=dict)
    # By endpoint, where the origin says it.
    deadlines_ms: Mapping[str, float] = field(default_factory=dict)
    # What the origin itself warns of.
    notes: Sequence[str] = ()

    def contenders(self) -> list[str]:
        """In order of appearance."""
        return list(dict.fromkeys(run.contender for run in self.runs))

    def of(self, contender: str) -> Subject:
        """That contender's runs alone."""
        return replace(self, runs=[run for run in self.runs if run.contender == contender])

    def cells(self, *, with_contender: bool) -> dict[Cell, list[Run]]:
        """Runs by cell, by repetition."""
        found: dict[Cell, list[Run]] = {}
        for run in sorted(self.runs, key=lambda run: run.repetition):
            found.setdefault(run.cell(with_contender=with_contender), []).append(run)
        return found


def said(cell: Cell) -> str:
    """A cell in words: "gevent, 0.7 CPU"; "" = nothing was varied."""
    return ", ".join(filter(None, (_said(name, value) for name, value in cell)))


def _said(name: str, value: str | int | float) -> str:
    match name, value:
        # A cell's name repeats what its other columns say.
        case ("cell", _) | (_, "") | ("utilisation_frac", 0) | ("rate_factor", 1):
            return ""
        case ("utilisation_frac", float()):
            return f"{value:g} CPU"
        case ("rate_factor", float()):
            return f"{value:g} × the rate"
        case ("contender", _):
            return str(value)
    return f"{name} {value}"
