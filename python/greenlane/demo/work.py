"""How many iterations of the service's own loop make one millisecond of CPU, measured once per run.

Why not wall clock in the service: "compute until 40 ms have passed" gives a starved contender less to do, and so
flatters the one that waits most. Iterations are the same work for everybody.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Final

# Long against the clock's grain and short enough that most rounds see no other process.
_ROUND_ITERATIONS: Final = 100_000
_ROUNDS: Final = 25


def iterations_per_ms(rounds: int = _ROUNDS) -> int:
    """Iterations of `pricing.burn` in one millisecond of this thread's CPU time.

    The median of `rounds` (25: about 0.2 s in all) of 100,000 iterations each, on this interpreter, after one round
    that lets the interpreter specialise the loop.
    """
    from greenlane.demo import pricing  # late: it needs Flask and numpy, which only the demo has

    per_call_ms = cpu_ms(lambda: pricing.burn(_ROUND_ITERATIONS), rounds)
    return max(1, round(_ROUND_ITERATIONS / per_call_ms))


def cpu_ms(call: Callable[[], object], rounds: int) -> float:
    """The median CPU time of one call on this thread, in milliseconds; it is called once more than `rounds`."""
    call()
    return statistics.median(_one_ms(call) for _ in range(rounds))


def _one_ms(call: Callable[[], object]) -> float:
    began_ns = time.thread_time_ns()
    call()
    return (time.thread_time_ns() - began_ns) / 1e6
