"""What is to be run and in which order: runtimes take turns, so that none has the machine's good minutes alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from greenlane.errors import GreenlaneError
from greenlane_tools.lab.experiment.program import ended, in_turns
from greenlane_tools.lab.part3.runtimes import Runtime, Shape

# --- One run of a runtime's program, in a process of its own that does not outlive us, and what it recorded.


#: Start of an interpreter and calibration.
_START_S: Final = 0.6
#: A run that takes this many times what it should, and a minute, hangs or has no CPU.
_PATIENCE: Final = 10
#: A program whose requests took less CPU than this share of what was set had calibrated in a slow moment …
_LEAST_CPU_FRAC: Final = 0.9
#: … and is run again, this often in all.
_TRIES: Final = 3
_ATTEMPT: Final = "run the benchmark's program"


@dataclass(frozen=True)
class Request:
    """One request; times of the monotonic clock, ns."""

    # In the order in which they were spawned, from 0.
    number: int
    # When the request before it in its place had ended.
    arrival_ns: int
    spawn_ns: int
    # Begin and end of each CPU burst: 2 x (waits + 1) values, ascending.
    marks_ns: tuple[int, ...]

    @property
    def handler_ns(self) -> int:
        """Its handler's first instruction."""
        return self.marks_ns[0]

    @property
    def end_ns(self) -> int:
        """Its handler's last instruction."""
        return self.marks_ns[-1]


@dataclass(frozen=True)
class Run:
    """What one process did."""

    # Name and version of the runtime.
    runtime: str
    shape: Shape
    green_threads: int
    requests: tuple[Request, ...]
    began_ns: int
    ended_ns: int
    # CPU time of the program's process in between, all its threads.
    cpu_ns: int
    iterations_per_ms: float
    # CPU time of one switch to another green thread; None = not measured.
    yield_ns: float | None
    # Cores that other processes used meanwhile, on average; grain 10 ms in all.
    others_cores: float

    @property
    def seconds(self) -> float:
        """From the first place that was open to the last request's end."""
        return (self.ended_ns - self.began_ns) / 1e9

    @property
    def done_per_s(self) -> float:
        """Requests a second."""
        return len(self.requests) / self.seconds


def expected_s(shape: Shape, green_threads: int, requests: int) -> float:
    """How long such a run takes on an idle machine, its start included."""
    return _START_S + requests / shape.most_per_s(green_threads)


def run(
    runtime: Runtime, shape: Shape, green_threads: int, requests: int, *, yields: int = 0, by_clock: bool = False
) -> Run:
    """Runs the program and waits for it. Whatever happens, Ctrl-C included, it has ended afterwards.

    Work is counted when the program starts. If that moment was slow (a neighbour, a host that took the CPU away), its
    requests do too little; their CPU time tells, and the run is done again, at most three times in all.

    Args:
        green_threads: requests in progress at a time.
        requests: in all.
        yields: switches whose cost is measured behind the requests; 0 = none.
        by_clock: requests compute for this much CPU time, not for as long as counted work takes on this
            minute's core. Of the programs in Python; node counts.

    Raises:
        GreenlaneError: it could not be started, failed, or took too long.
    """
    for _ in range(_TRIES):
        found = _once(runtime, shape, green_threads, requests, yields, by_clock)
        if found.cpu_ns >= _LEAST_CPU_FRAC * shape.cpu_ms * 1e6 * requests:
            break
    return found


def _once(runtime: Runtime, shape: Shape, green_threads: int, requests: int, yields: int, by_clock: bool) -> Run:
    def command(folder: Path, result: Path) -> tuple[Sequence[str], Mapping[str, str]]:
        job = json.dumps(_job(shape, green_threads, requests, yields, by_clock, result))
        return runtime.command(job), runtime.environment

    done = ended(command, 60 + _PATIENCE * expected_s(shape, green_threads, requests))
    if done.failed:
        rule = f"a program that leaves its result ({done.failed})"
        hint = f"run it without {runtime.name}: --runtimes"
        raise GreenlaneError(_ATTEMPT, name="runtime", value=runtime.name, rule=rule, hint=hint)
    return _run(done.result, shape, green_threads, done.others_cores)


def _job(
    shape: Shape, green_threads: int, requests: int, yields: int, by_clock: bool, result: Path
) -> dict[str, object]:
    waits_ms = shape.waits_ms()
    return {
        "bursts_ms": shape.bursts_ms(),
        "waits_ms": waits_ms,
        "together": shape.calls if shape.together else 0,
        "green_threads": green_threads,
        "requests": requests,
        "yields": yields,
        "by_clock": by_clock,
        "result": str(result),
    }


def _run(found: dict[str, Any], shape: Shape, green_threads: int, others_cores: float) -> Run:
    requests = tuple(
        Request(number, arrival_ns, spawn_ns, tuple(marks))
        for number, (arrival_ns, spawn_ns, *marks) in enumerate(found["requests"])
    )
    return Run(
        found["runtime"], shape, green_threads, requests, found["began_ns"], found["ended_ns"], found["cpu_ns"],
        found["iterations_per_ms"], found["yield_ns"], others_cores,
    )  # fmt: skip


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
