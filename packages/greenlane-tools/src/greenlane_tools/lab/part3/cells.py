"""What is to be run and in which order: runtimes take turns, so that none has the machine's good minutes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.lab.experiment.turns import in_turns
from greenlane_tools.lab.part3.run import Run, expected_s, run
from greenlane_tools.lab.part3.runtimes import Runtime, Shape

__all__ = ["Cell", "Measured", "expected_all_s", "measure", "samples", "with_baselines"]


#: A baseline that was not requested runs about this long, and at least this many requests.
_BASELINE_MS: Final = 3_000.0
_BASELINE_LEAST: Final = 10
_TIMES: Final = ("arrival_ns", "spawn_ns", "handler_ns", "end_ns")


@dataclass(frozen=True)
class Cell:
    """One runtime with one kind of request and one number of green threads."""

    runtime: Runtime
    shape: Shape
    green_threads: int
    requests: int
    # Run for its throughput alone, which the speed-up of other cells is counted against.
    baseline: bool = False


#: Runs by cell, one a repetition.
Measured = Mapping[Cell, Sequence[Run]]


def with_baselines(cells: Iterable[Cell]) -> list[Cell]:
    """The cells, and one green thread of each runtime and shape that has none: speed-up is counted against it."""
    found = list(cells)
    alone = {(cell.runtime, cell.shape) for cell in found if cell.green_threads == 1}
    for cell in tuple(found):
        if (cell.runtime, cell.shape) not in alone:
            alone.add((cell.runtime, cell.shape))
            each_ms = cell.shape.cpu_ms + cell.shape.waited_ms()
            enough = max(_BASELINE_LEAST, round(_BASELINE_MS / max(each_ms, 1.0)))
            found.append(Cell(cell.runtime, cell.shape, 1, min(cell.requests, enough), baseline=True))
    return found


def expected_all_s(cells: Iterable[Cell], repetitions: int) -> float:
    """How long all of them take on an idle machine."""
    return repetitions * sum(expected_s(cell.shape, cell.green_threads, cell.requests) for cell in cells)


def measure(
    cells: Sequence[Cell],
    *,
    repetitions: int = 1,
    seed: int = 1,
    yields: int = 0,
    progress: Callable[[int, Cell], None] | None = None,
) -> dict[Cell, list[Run]]:
    """Runs all cells, each once a repetition, in another order each time.

    Args:
        seed: of the orders; the work itself is the same in every request.
        yields: as in `run`.
        progress: called before each run with its number from 0.

    Raises:
        GreenlaneError: a program failed; see `run`.
    """
    return in_turns(
        cells, lambda cell: run(cell.runtime, cell.shape, cell.green_threads, cell.requests, yields=yields),
        repetitions=repetitions, seed=seed, progress=progress,
    )  # fmt: skip


def samples(measured: Measured) -> dict[str, list[object]]:
    """Columns: every request of every run, a row each, times in ns since its run began; baselines too."""
    columns: dict[str, list[object]] = {}
    for cell, runs in measured.items():
        shape = cell.shape
        key: dict[str, object] = {
            "contender": cell.runtime.name, "green_threads": cell.green_threads, "set_cpu_ms": shape.cpu_ms,
            "set_network_ms": shape.network_ms, "calls": shape.calls, "together": shape.together,
        }  # fmt: skip
        for repetition, one in enumerate(runs):
            for request in one.requests:
                times = {name: getattr(request, name) - one.began_ns for name in _TIMES}
                for name, value in (key | {"repetition": repetition, "number": request.number} | times).items():
                    columns.setdefault(name, []).append(value)
    return columns
