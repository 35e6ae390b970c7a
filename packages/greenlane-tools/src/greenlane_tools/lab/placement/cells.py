"""What is to be run and in which order: contenders take turns, so that none has the machine's good minutes alone."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from greenlane_tools.lab.experiment.program import ended, in_turns
from greenlane_tools.lab.placement.contenders import IDLE, OURS, Contender, lacking, needs_of
from greenlane_tools.lab.placement.functions import Amounts, Function
from greenlane_tools.lab.placement.programs.job import Job, Result
from greenlane_tools.lab.statistics import quantile

# --- One run of a contender, in a process of its own that does not outlive us, and what it has counted.


#: Start of an interpreter, of pools, of Ray.
_MOST_START_S: Final = 60.0
#: A run that takes this many times what it should, and a minute, hangs or has no CPU.
_PATIENCE: Final = 20


@dataclass(frozen=True)
class Run:
    """What one process did."""

    result: Result
    # Why there is no result; "" = there is one.
    failed: str
    # Cores that other processes used meanwhile, on average; grain 10 ms in all.
    others_cores: float


def run(contender: Contender, job: Job, expected_s: float) -> Run:
    """Runs the job and waits for it. Whatever happens, Ctrl-C included, all of it has ended afterwards.

    Args:
        job: its `result` is set here.
        expected_s: how long it takes on an idle machine, its start left out.
    """

    def command(folder: Path, result: Path) -> tuple[Sequence[str], Mapping[str, str]]:
        text = json.dumps(asdict(job) | {"result": str(result)})
        return contender.command(text, job.loop, folder), {"TMPDIR": str(folder), "PLACEMENT_JOB": text}

    found = ended(command, _MOST_START_S + _PATIENCE * expected_s, lasting=True)
    return Run(Result(**found.result) if found.result else Result(), found.failed, found.others_cores)


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


# --- One row a cell: latency, CPU, heartbeat and bytes; repetitions are pooled.


Row = dict[str, Any]


def rows_of(measured: Measured) -> list[Row]:
    """Rows in the order of the cells. What could not be measured is None, and `missing` says why."""
    idle = [late for cell, runs in measured.items() if cell.function is None for run in runs for late in _late(run)]
    idle_p99_ms = quantile(sorted(idle), 0.99) if idle else None
    return [_row(cell, runs, idle_p99_ms) for cell, runs in measured.items()]


def _row(cell: Cell, runs: Sequence[Run], idle_p99_ms: float | None) -> Row:
    results = [run.result for run in runs if not run.failed]
    took_ms = sorted(took for result in results for took in result.took_ms)
    late_ms = sorted(late for result in results for late in result.late_ms)
    errors = sum(result.errors for result in results)
    seconds = sum(result.seconds for result in results)
    cpu_ms = sum(result.cpu_ns for result in results) / 1e6
    beat_p99_ms = quantile(late_ms, 0.99) if late_ms else None
    last = results[-1] if results else None
    return {
        "function": "" if cell.function is None else cell.function.name,
        "contender": cell.contender.name,
        "callers": cell.callers,
        "p50_ms": quantile(took_ms, 0.5) if took_ms else None,
        "p99_ms": quantile(took_ms, 0.99) if took_ms else None,
        "done_per_s": len(took_ms) / seconds if took_ms else None,
        "cpu_ms_per_job": cpu_ms / len(took_ms) if took_ms else None,
        "heartbeat_p50_ms": quantile(late_ms, 0.5) if late_ms else None,
        "heartbeat_p99_ms": beat_p99_ms,
        "heartbeat_added_p99_ms": (
            beat_p99_ms - idle_p99_ms if beat_p99_ms is not None and idle_p99_ms is not None else None
        ),
        "bytes_in_band": last.bytes_in_band if last and took_ms else None,
        "bytes_out_of_band": last.bytes_out_of_band if last and took_ms else None,
        "samples": len(took_ms),
        "errors": errors,
        "beats": len(late_ms),
        "repetitions": len(results),
        "p50_ms_by_repetition": [statistics.median(result.took_ms) for result in results if result.took_ms],
        "chosen": last.chosen if last else "",
        "reason": last.reason if last else "",
        "missing": cell.missing or _why(runs),
        "others_cores": statistics.fmean(run.others_cores for run in runs) if runs else None,
    }


def _why(runs: Sequence[Run]) -> str:
    """What went wrong first: of a run that failed, or of a call."""
    return next((said for run in runs if (said := run.failed or run.result.first_error)), "")


def _late(run: Run) -> Sequence[float]:
    return run.result.late_ms
