"""Costs of functions that do the same, measured in turn."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

# A repetition lasts at least so long: shorter functions are called several times.
_LEAST_S: Final = 0.02


@dataclass(frozen=True)
class Cost:
    """What one call costs: of each repetition, in the order in which they were made.

    Args:
        cpu_ms: CPU of this process, all its threads.
        wall_ms: by the clock.
    """

    cpu_ms: tuple[float, ...]
    wall_ms: tuple[float, ...]

    def of(self, clock: str) -> tuple[float, ...]:
        """`cpu_ms` or `wall_ms`."""
        return self.cpu_ms if clock == "cpu_ms" else self.wall_ms

    def median(self, clock: str) -> float:
        """Of `cpu_ms` or `wall_ms`."""
        return statistics.median(self.of(clock))

    def ratio_to(self, other: Cost, clock: str) -> tuple[float, float, float]:
        """How many times less than the other: median, and the quartiles, over pairs of one repetition each."""
        pairs = zip(other.of(clock), self.of(clock), strict=True)
        ratios = [theirs / max(mine, 1e-9) for theirs, mine in pairs]
        if len(ratios) < 2:
            return ratios[0], ratios[0], ratios[0]
        low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
        return middle, low, high


def costs(functions: Mapping[str, Callable[[], Any]], repetitions: int) -> dict[str, Cost]:
    """Calls each function in turn, `repetitions` times, after one call that does not count.

    Who is first changes with the repetition, and garbage of one is collected before the next.
    """
    calls = {name: _calls(function) for name, function in functions.items()}
    cpu_ms: dict[str, list[float]] = {name: [] for name in functions}
    wall_ms: dict[str, list[float]] = {name: [] for name in functions}
    names = list(functions)
    for repetition in range(repetitions):
        first = repetition % len(names)
        for name in names[first:] + names[:first]:
            cpu_s, wall_s = _once(functions[name], calls[name])
            cpu_ms[name].append(1e3 * cpu_s)
            wall_ms[name].append(1e3 * wall_s)
    return {name: Cost(tuple(cpu_ms[name]), tuple(wall_ms[name])) for name in functions}


def _calls(function: Callable[[], Any]) -> int:
    function()
    _, wall_s = _once(function, 1)
    return max(1, round(_LEAST_S / max(wall_s, 1e-6)))


def _once(function: Callable[[], Any], calls: int) -> tuple[float, float]:
    """CPU and wall seconds of one call, over `calls` of them."""
    gc.collect()
    cpu_s, wall_s = time.process_time(), time.perf_counter()
    for _ in range(calls):
        function()
    return (time.process_time() - cpu_s) / calls, (time.perf_counter() - wall_s) / calls
