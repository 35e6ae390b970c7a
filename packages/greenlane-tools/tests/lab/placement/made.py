"""Runs as a process leaves them, without the process."""

from __future__ import annotations

from collections.abc import Sequence

from greenlane_tools.lab.placement.cells import Cell, Run
from greenlane_tools.lab.placement.contenders import CONTENDERS, IDLE
from greenlane_tools.lab.placement.functions import FUNCTIONS
from greenlane_tools.lab.placement.programs.job import Result


def cell(function: str, contender: str, callers: int = 4, missing: str = "") -> Cell:
    if not function:
        return Cell(None, IDLE, 0)
    return Cell(FUNCTIONS[function], CONTENDERS[contender], callers, 4, missing)


def run(took_ms: Sequence[float], late_ms: Sequence[float] = (0.1,), **fields: object) -> Run:
    seconds = sum(took_ms) / 1000 or 1.0
    result = Result(took_ms=list(took_ms), late_ms=list(late_ms), seconds=seconds, cpu_ns=int(seconds * 1e9))
    for name, value in fields.items():
        setattr(result, name, value)
    return Run(result, "", 0.0)
