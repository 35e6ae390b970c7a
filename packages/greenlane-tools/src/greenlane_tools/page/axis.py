"""Axes: where a value lies, and which round values are worth a line."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import duration
from greenlane_tools.page.svg import label, line

_TIME_STEPS_NS: Final = [base * unit for unit in (1, 10**3, 10**6) for base in (1, 2, 5, 10, 20, 50, 100, 200, 500)] + [
    int(seconds * 1e9) for seconds in (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 3600, 7200, 21600, 86400)
]


class Axis(Protocol):
    """From values to places."""

    low: float
    high: float

    def at(self, value: float) -> float:
        """The place of a value; beyond the ends, the end."""

    def place(self, value: float) -> float:
        """The place of a value, beyond the ends too."""

    def ticks(self) -> Sequence[float]:
        """Round values within the axis, ascending."""


class LinearAxis:
    """Equal steps.

    Args:
        low, high: values at its ends.
        start, stop: their places.
        step: between ticks; 0 = a round one that gives about five.
    """

    def __init__(self, low: float, high: float, start: float, stop: float, step: float = 0) -> None:
        self.low, self.high = low, high if high > low else low + 1
        self._start, self._stop = start, stop
        self._step = step or round_step((self.high - self.low) / 5)

    def at(self, value: float) -> float:
        """The place of a value; beyond the ends, the end."""
        return self.place(min(max(value, self.low), self.high))

    def place(self, value: float) -> float:
        """The place of a value, beyond the ends too."""
        return self._start + (self._stop - self._start) * (value - self.low) / (self.high - self.low)

    def ticks(self) -> list[float]:
        """Multiples of the step."""
        first = math.ceil(self.low / self._step - 1e-9)
        last = math.floor(self.high / self._step + 1e-9)
        return [number * self._step for number in range(first, last + 1)]


class LogAxis:
    """Equal factors: for latencies, which spread over decades. As `LinearAxis`; `low` > 0."""

    def __init__(self, low: float, high: float, start: float, stop: float) -> None:
        self.low = low
        self.high = high if high > low else low * 2
        self._start, self._stop = start, stop
        self._span = math.log(self.high / self.low)

    def at(self, value: float) -> float:
        """The place of a value; beyond the ends, the end."""
        return self.place(min(max(value, self.low), self.high))

    def place(self, value: float) -> float:
        """The place of a value > 0, beyond the ends too."""
        return self._start + (self._stop - self._start) * math.log(value / self.low) / self._span

    def ticks(self) -> list[float]:
        """1, 2 and 5 of each decade; decades alone when there are more than four, equal steps within a part of one."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        steps = (1, 2, 5) if last - first <= 4 else (1,)
        found = [step * 10.0**power for power in range(first, last + 1) for step in steps]
        found = [value for value in found if self.low <= value <= self.high]
        return found if len(found) > 2 else LinearAxis(self.low, self.high, self._start, self._stop).ticks()


def grid(axis: Axis, top: float, bottom: float, said: Callable[[float], str] = duration, room: float = 52) -> Html:
    """Lines at the ticks of a horizontal axis from `top` to `bottom`, their values below, no two closer than `room`."""
    parts, last = [], -math.inf
    for tick in axis.ticks():
        x = axis.at(tick)
        parts.append(line(x, top, x, bottom, "grid"))
        if x - last >= room:
            last = x
            parts.append(label(x, bottom + 16, said(tick), "soft", "middle"))
    return Html("".join(parts))


def round_step(least: float) -> float:
    """The smallest of 1, 2, 5 × a power of ten that is not below `least`."""
    if least <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least * 0.999)


def time_step_ns(span_ns: float, about: int = 6) -> int:
    """A step for an axis of time: round in the units people count it in, about this many of them."""
    return next((step for step in _TIME_STEPS_NS if step * about >= span_ns), _TIME_STEPS_NS[-1])
