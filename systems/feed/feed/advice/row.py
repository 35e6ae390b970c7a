"""One switch, measured: a line of the table."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from greenlane_tools.page.quantities import amount

# Less than this is no difference that anybody should work for.
_WORTH: Final = 1.05


@dataclass(frozen=True)
class Row:
    """What a switch costs beside what it is held against.

    Args:
        topic: of the table: json, validation, formats, compression, collector.
        stage: what is done, for one request.
        contender: the switch.
        against: what it is held against; its own name in that one's row.
        cpu_ms_per_job: CPU of both ends, median.
        wall_ms: median.
        ratio: how many times less than `against` it takes, by `decided_by`; median of pairs.
        ratio_low, ratio_high: quartiles of the pairs.
        decided_by: cpu_ms or wall_ms.
        bytes: of what is stored or sent; 0 = nothing is.
        note: what else is to be known of it.
    """

    topic: str
    stage: str
    contender: str
    against: str
    cpu_ms_per_job: float
    wall_ms: float
    ratio: float
    ratio_low: float
    ratio_high: float
    decided_by: str
    bytes: int = 0
    note: str = ""

    @property
    def is_worth_it(self) -> bool:
        """Its pairs agree that it takes less."""
        return self.ratio_low > _WORTH

    @property
    def advice(self) -> str:
        """What follows from the ratio."""
        said = f"; {self.note}" if self.note else ""
        if self.contender == self.against:
            return f"the baseline{said}"
        if self.is_worth_it:
            return f"worth it: {amount(self.ratio)} times less{said}"
        if self.ratio_high < 1 / _WORTH:
            return f"no: {amount(1 / max(self.ratio, 1e-9))} times more{said}"
        return f"makes no difference here{said}"


def rows(
    topic: str,
    stage: str,
    found: Mapping[str, Cost],
    *,
    clock: str = "cpu_ms",
    sizes: Mapping[str, int] | None = None,
    notes: Mapping[str, str] | None = None,
) -> list[Row]:
    """A row for each; the first one is what all are held against."""
    against = next(iter(found))
    made = []
    for name, cost in found.items():
        ratio, low, high = cost.ratio_to(found[against], clock)
        made.append(
            Row(
                topic, stage, name, against,
                round(cost.median("cpu_ms"), 4), round(cost.median("wall_ms"), 4),
                round(ratio, 4), round(low, 4), round(high, 4), clock,
                bytes=(sizes or {}).get(name, 0), note=(notes or {}).get(name, ""),
            )
        )  # fmt: skip
    return made


# --- Costs of functions that do the same, measured in turn.

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
