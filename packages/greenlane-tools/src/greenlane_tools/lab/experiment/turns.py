"""Contenders take turns, so that none has the machine's good minutes alone."""

from __future__ import annotations

import random
from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from greenlane_tools.lab.ending import checkpoint

Cell = TypeVar("Cell", bound=Hashable)
Run = TypeVar("Run")


def in_turns(
    cells: Sequence[Cell],
    run: Callable[[Cell], Run],
    *,
    repetitions: int = 1,
    seed: int = 1,
    block_of: Callable[[Cell], Hashable] = lambda cell: "",
    progress: Callable[[int, Cell], None] | None = None,
) -> dict[Cell, list[Run]]:
    """Runs by cell, one a repetition: each cell once a repetition, in another order each time.

    Args:
        seed: of the orders.
        block_of: cells of one block run close together; blocks keep their order.
        progress: called before each run with its number from 0.
    """
    found: dict[Cell, list[Run]] = {cell: [] for cell in cells}
    source, number = random.Random(seed), 0
    for _ in range(repetitions):
        for block in dict.fromkeys(map(block_of, cells)):
            order = [cell for cell in cells if block_of(cell) == block]
            source.shuffle(order)
            for cell in order:
                checkpoint()
                if progress is not None:
                    progress(number, cell)
                found[cell].append(run(cell))
                number += 1
    return found
