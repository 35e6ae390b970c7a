"""One run of a runtime's program, in a process of its own that does not outlive us, and what it recorded."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from greenlane.errors import GreenlaneError
from greenlane_tools.lab.experiment.program import ended
from greenlane_tools.lab.part3.runtimes import Runtime, Shape

__all__ = ["Request", "Run", "expected_s", "run"]

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
