"""CPU work as iterations of a loop, counted against this thread's CPU clock when the program starts.

Why not "until 5 ms have passed", as the article's port does: beside other processes the wall clock goes on while the
CPU is taken away, so that on a busy machine each request does less work and the throughput stays flattering. Why again
in each process: its layout in memory and the processor's clock differ from one start to the next by some percent.
"""

from __future__ import annotations

import statistics
import time
from typing import Final

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
