"""What theory says of requests that take turns on one CPU and wait beside it. Core counts; here it gets its formula.

    knee, most, least, speed_up       bounds: nothing can exceed them
    closed, at_once                   exact means with N in progress, and the N that fills the CPU
    in_progress                       Little's law
    hard_lane                         up to which load a lane of its own is stable

Times are ms, rates a second.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from greenlane.errors import PlanError
from greenlane_tools._native import closed_bounds, closed_means, closed_number
from greenlane_tools._native import hard_lane as _hard_lane
from greenlane_tools.plan import formulas
from greenlane_tools.plan.answer import Answer, Given

__all__ = [
    "Means",
    "at_once",
    "closed",
    "hard_lane",
    "in_progress",
    "knee",
    "least",
    "most",
    "speed_up",
]

#: A limit above this many times the knee is given when somebody asks how many varied work needs. Measured and simulated
#: for CPU with cv of 1: 1.6 to 1.7.
VARIED: Final = 1.65
#: Numbers in progress that are looked at.
_MOST: Final = 100_000


@dataclass(frozen=True, slots=True)
class Means:
    """Means of requests in progress."""

    done: Answer
    latency: Answer
    #: Share of the time in which the CPU works.
    busy: Answer


def knee(cpu_ms: float, io_ms: float) -> Answer:
    """So many requests fill the CPU if none ever waits; inf without CPU."""
    value, _, _ = closed_bounds(_time("cpu_ms", cpu_ms), _time("io_ms", io_ms), 1)
    note = f"With work that varies take about {VARIED * value:.0f}." if 1 < value < math.inf else ""
    return Answer(value, "", formulas.KNEE, _work(cpu_ms, io_ms), (note,) if note else ())


def speed_up(cpu_ms: float, io_ms: float) -> Answer:
    """How much more side by side can get done: Amdahl's law; the same number as the knee."""
    value, _, _ = closed_bounds(_time("cpu_ms", cpu_ms), _time("io_ms", io_ms), 1)
    share = io_ms / (cpu_ms + io_ms) if cpu_ms + io_ms else 0.0
    return Answer(value, "x", formulas.SPEED_UP, (*_work(cpu_ms, io_ms), Given("p", share)))


def most(cpu_ms: float, io_ms: float, number: int) -> Answer:
    """Throughput that nothing can exceed; inf without any work."""
    _, value, _ = closed_bounds(_time("cpu_ms", cpu_ms), _time("io_ms", io_ms), _number(number))
    notes = ("The CPU is full.",) if cpu_ms and number >= (cpu_ms + io_ms) / cpu_ms else ()
    return Answer(1000 * value, "per_s", formulas.MOST, _work(cpu_ms, io_ms, number), notes)


def least(cpu_ms: float, io_ms: float, number: int) -> Answer:
    """Mean latency that nothing can go below."""
    _, _, value = closed_bounds(_time("cpu_ms", cpu_ms), _time("io_ms", io_ms), _number(number))
    waits_ms = value - cpu_ms - io_ms
    notes = (f"Of it {waits_ms:.3g} ms are waiting for the CPU.",) if waits_ms > 0 else ()
    return Answer(value, "ms", formulas.LEAST, _work(cpu_ms, io_ms, number), notes)


def closed(cpu_ms: float, io_ms: float, number: int) -> Means:
    """Exact means with `number` requests in progress."""
    per_ms, latency_ms, busy = closed_means(_time("cpu_ms", cpu_ms), _time("io_ms", io_ms), _number(number))
    given = _work(cpu_ms, io_ms, number)
    return Means(
        Answer(1000 * per_ms, "per_s", formulas.MVA, given),
        Answer(latency_ms, "ms", formulas.MVA, given),
        Answer(busy, "frac", formulas.MVA, given),
    )


def at_once(cpu_ms: float, io_ms: float, busy: float = 0.98, limit: int = 4096) -> Answer:
    """The smallest number in progress with which the CPU works the share `busy` of the time; what `serve` sets.

    Args:
        busy: 0 to 1, without 1.
        limit: never more than that.
    """
    if not 0 < busy < 1:
        raise _wrong("busy", busy, "a number between 0 and 1")
    value = closed_number(_time("cpu_ms", cpu_ms), _time("io_ms", io_ms), busy, _number(limit))
    notes = (f"Not more than {limit} were looked at.",) if value >= limit else ()
    return Answer(value, "", formulas.AT_ONCE, (*_work(cpu_ms, io_ms), Given("u", busy, "frac")), notes)


def in_progress(rate_per_s: float, stay_ms: float) -> Answer:
    """How many are there on average: Little's law."""
    value = _time("rate_per_s", rate_per_s) * _time("stay_ms", stay_ms) / 1000
    return Answer(value, "", formulas.LITTLE, (Given("λ", rate_per_s, "per_s"), Given("R", stay_ms, "ms")))


def hard_lane(processes: int, share: float, own: int = 1) -> Answer:
    """The utilisation of all processes up to which a hard lane is stable; at most 1.

    Args:
        processes: all, the lane's included.
        share: of all CPU work, that of the lane's requests, 0 to 1.
        own: processes of the lane.
    """
    if not 0 <= share <= 1:
        raise _wrong("share", share, "a number from 0 to 1")
    if not 1 <= own <= processes:
        raise _wrong("own", own, f"a whole number from 1 to the {processes} processes")
    others, lane = _hard_lane(processes, own, share)
    value = min(others, lane, 1.0)
    notes: tuple[str, ...] = ()
    if value < 1:
        first = "the lane's" if lane < others else "the others'"
        notes = (f"Then {first} processes are full, while {1 - value:.0%} of the machine idles.",)
    given = (Given("P", processes), Given("p", own), Given("s", share, "frac"))
    return Answer(value, "frac", formulas.HARD_LANE, given, notes)


def _work(cpu_ms: float, io_ms: float, number: int | None = None) -> tuple[Given, ...]:
    given = (Given("C", cpu_ms, "ms"), Given("S", io_ms, "ms"))
    return given if number is None else (*given, Given("N", number))


def _time(name: str, value: float) -> float:
    if not (value >= 0 and math.isfinite(value)):
        raise _wrong(name, value, "a finite number of at least 0")
    return float(value)


def _number(value: int) -> int:
    if not 1 <= value <= _MOST:
        raise _wrong("number", value, f"a whole number from 1 to {_MOST}")
    return value


def _wrong(name: str, value: object, rule: str, hint: str = "") -> PlanError:
    return PlanError("compute a bound", name=name, value=value, rule=rule, hint=hint)
