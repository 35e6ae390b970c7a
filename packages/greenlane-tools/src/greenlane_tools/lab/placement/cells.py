"""What is to be run and in which order: contenders take turns, so that none has the machine's good minutes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.lab.experiment.turns import in_turns
from greenlane_tools.lab.placement.contenders import IDLE, OURS, Contender, lacking, needs_of
from greenlane_tools.lab.placement.functions import Amounts, Function
from greenlane_tools.lab.placement.programs.job import Job
from greenlane_tools.lab.placement.run import Run, run

__all__ = ["LEARNING_CALLS", "Cell", "Measured", "cells_of", "expected_all_s", "measure"]

#: Calls before those that count: enough that pools and models are there.
_WARM_CALLS: Final = 12
#: Greenlane chooses within this many calls.
LEARNING_CALLS: Final = 50
#: Start and end of a process; of Ray.
_START_S: Final = 1.0
_RAY_START_S: Final = 6.0
_IDLE_S: Final = 2.0


@dataclass(frozen=True)
class Cell:
    """One function under one contender with this many callers."""

    # None = nobody calls.
    function: Function | None
    contender: Contender
    callers: int
    # Of a repetition.
    calls: int = 0
    # What is missing for it; "" = it can run.
    missing: str = ""

    @property
    def warm(self) -> int:
        """Calls before those that count."""
        if self.function is None:
            return 0
        return LEARNING_CALLS if self.contender.name == OURS else max(_WARM_CALLS, self.callers)

    def expected_s(self) -> float:
        """How long a run takes on an idle machine, its start left out."""
        return _IDLE_S if self.function is None else (self.warm + self.calls) * self.function.about_ms / 1000

    def job(self, loop: str, amounts: Amounts) -> Job:
        """The input of its process."""
        name = "" if self.function is None else self.function.name
        return Job(
            name, self.contender.name, loop, self.callers, self.warm, self.calls, amounts.iterations, amounts.passes,
            amounts.model, "", _IDLE_S,
        )  # fmt: skip


#: Runs by cell, one a repetition; none of a cell that something is missing for.
Measured = Mapping[Cell, Sequence[Run]]


def cells_of(
    functions: Iterable[Function],
    contenders: Sequence[Contender],
    callers: Sequence[int],
    loop: str,
    calls_of: Callable[[Function], int],
) -> list[Cell]:
    """Every function under every contender with each number of callers, and the heartbeat alone.

    Args:
        calls_of: calls of a function in a repetition: the same for every contender.
    """
    found = [Cell(None, IDLE, 0)]
    for function in functions:
        for number in callers:
            for contender in contenders:
                missing = needs_of(function.needs) or lacking(contender, loop)
                found.append(Cell(function, contender, number, calls_of(function), missing))
    return found


def expected_all_s(cells: Iterable[Cell], repetitions: int) -> float:
    """How long all of them take on an idle machine."""
    starts = {"ray": _RAY_START_S}
    once = [cell.expected_s() + starts.get(cell.contender.name, _START_S) for cell in cells if not cell.missing]
    return repetitions * sum(once)


def measure(
    cells: Sequence[Cell],
    amounts: Amounts,
    *,
    loop: str,
    repetitions: int = 1,
    seed: int = 1,
    progress: Callable[[int, Cell], None] | None = None,
) -> dict[Cell, list[Run]]:
    """Runs all cells, each once a repetition: function by function, its contenders in another order each time.

    What is compared lies close together so: one function under all contenders.

    Args:
        amounts: how much work a call is.
        loop: asyncio, uvloop or gevent.
        seed: of the orders.
        progress: called before each run with its number from 0.
    """
    found = in_turns(
        [cell for cell in cells if not cell.missing],
        lambda cell: run(cell.contender, cell.job(loop, amounts), cell.expected_s()),
        repetitions=repetitions, seed=seed, block_of=lambda cell: (cell.function, cell.callers), progress=progress,
    )  # fmt: skip
    return {cell: found.get(cell, []) for cell in cells}
