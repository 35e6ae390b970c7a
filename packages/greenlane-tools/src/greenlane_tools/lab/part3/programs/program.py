"""What the programs share: the job they are given, the requests they keep, the file they leave.

The job is JSON in the first argument: {"bursts_ms", "waits_ms", "together", "green_threads", "requests", "yields",
"result", "by_clock": bursts last for this much CPU time, whatever they get done in it}. The file `result` gets
{"runtime", "iterations_per_ms", "began_ns", "ended_ns", "cpu_ns", "yield_ns", "requests": [[arrival_ns, spawn_ns,
mark_ns, ...], ...]}, requests numbered in the order of their spawn. Marks of a request are when its bursts begin and
end, in turns: the first is its handler's first instruction, the last its end. Times are of the monotonic clock;
`cpu_ns` is the process's CPU time between `began_ns` and `ended_ns`.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

# --- CPU work as iterations of a loop, counted against this thread's CPU clock when the program starts.


# About 2 ms each: long against the clock, short enough that most rounds see no other process.
_ROUND: Final = 100_000
_ROUNDS: Final = 61
# Some 20 us: how often `burn_ns` looks at the clock.
_PIECE: Final = 1_000


def burn(iterations: int) -> None:
    """Compute. Keeps the GIL as Python code does: it can be taken away at each turn of the loop."""
    while iterations > 0:
        iterations -= 1


def burn_ns(cpu_ns: int) -> None:
    """Compute for this much of this thread's CPU time, to some 20 us: less work where the core is slower."""
    until_ns = time.thread_time_ns() + cpu_ns
    while time.thread_time_ns() < until_ns:
        burn(_PIECE)


def iterations_per_ms() -> float:
    """Iterations in 1 ms of this thread's CPU time: of 61 rounds, after two that warm up; about 130 ms.

    The lower quartile of the rounds' times: a neighbour on the same core makes rounds slower, and nothing makes them
    faster.
    """
    for _ in range(2):
        burn(_ROUND)
    return _ROUND / statistics.quantiles((_round_ms() for _ in range(_ROUNDS)), n=4)[0]


def _round_ms() -> float:
    began_ns = time.thread_time_ns()
    burn(_ROUND)
    return (time.thread_time_ns() - began_ns) / 1e6


now_ns: Final = time.monotonic_ns


@dataclass(frozen=True)
class Job:
    """What is to be done. `bursts` are what `work` takes: iterations, or ns of CPU."""

    bursts: tuple[int, ...]
    waits_s: tuple[float, ...]
    # Calls that are made at once; 0 = one after the other.
    together: int
    green_threads: int
    requests: int
    work: Callable[[int], None]

    def serve(self, marks: list[int], sleep: Callable[[float], object]) -> None:
        """One request of a program whose waits are plain calls; notes its marks."""
        marks.append(now_ns())
        self.work(self.bursts[0])
        for wait_s, burst in zip(self.waits_s, self.bursts[1:], strict=True):
            marks.append(now_ns())
            sleep(wait_s)
            marks.append(now_ns())
            self.work(burst)
        marks.append(now_ns())


class Places:
    """The N places of the closed loop, and the requests.

    A request arrives when the one before it in its place has ended: that is when a waiting client would have sent it.
    """

    def __init__(self, job: Job) -> None:
        self.records: list[list[int]] = []
        self.began_ns = 0
        self.began_cpu_ns = 0
        self._job = job
        self._free: deque[int] = deque()

    def open(self) -> None:
        """Begin: all places are free from now on."""
        self.began_cpu_ns = time.process_time_ns()
        self.began_ns = now_ns()
        self._free.extend([self.began_ns] * self._job.green_threads)

    def spawn(self) -> list[int]:
        """Take the place that has been free for longest, for a request that is spawned now; gives its record."""
        record = [self._free.popleft(), now_ns()]
        self.records.append(record)
        return record

    def ended(self, record: list[int]) -> None:
        """Free the place of a request whose last mark is set."""
        self._free.append(record[-1])


def main(runtime: str, run: Callable[[Job, Places], None], yields: Callable[[int], None]) -> None:
    """Do the job of the command line.

    Args:
        runtime: name and version of what runs it.
        run: opens the places when it is ready, and runs all requests.
        yields: makes this many switches from one green thread to another and back, for their cost.
    """
    given = json.loads(sys.argv[1])
    per_ms = iterations_per_ms()
    waits_s = tuple(wait / 1000 for wait in given["waits_ms"])
    unit, work = (1e6, burn_ns) if given["by_clock"] else (per_ms, burn)
    bursts = tuple(round(burst * unit) for burst in given["bursts_ms"])
    job = Job(bursts, waits_s, given["together"], given["green_threads"], given["requests"], work)
    places = Places(job)
    run(job, places)
    ended_ns = now_ns()
    cpu_ns = time.process_time_ns() - places.began_cpu_ns
    found = {
        "runtime": runtime,
        "iterations_per_ms": per_ms,
        "began_ns": places.began_ns,
        "ended_ns": ended_ns,
        "cpu_ns": cpu_ns,
        "yield_ns": _cost_ns(yields, given["yields"]),
        "requests": places.records,
    }
    result = Path(given["result"])
    part = result.with_suffix(".part")
    part.write_text(json.dumps(found))
    os.replace(part, result)


def _cost_ns(yields: Callable[[int], None], count: int) -> float | None:
    """CPU time of the process per switch; None when none was asked for."""
    if not count:
        return None
    began_ns = time.process_time_ns()
    yields(count)
    return (time.process_time_ns() - began_ns) / count
