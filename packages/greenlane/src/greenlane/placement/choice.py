"""One placed function: where its calls run, what they have cost, and why they run there.

The native `_native.Chooser` decides. This module gives it measurements, and keeps what people read.
"""

from __future__ import annotations

import dataclasses
import os
import time
from typing import Any, Final

from greenlane._native import Chooser
from greenlane.placement.call import Call, State
from greenlane.placement.crossing import Crossing
from greenlane.placement.functions import AUTO, PlacedFunction
from greenlane.placement.words import reason
from greenlane.policy.placed import ChoiceRule

__all__ = ["INLINE", "INSPECT", "MEASURE", "PREPARE", "PROCESS", "THREAD", "Choice", "Cost", "PlacedRow"]
__all__ += ["place_of"]

#: See `_native.Chooser`.
_PLACES: Final = ("inline", "thread", "process")
INLINE, THREAD, PROCESS = range(3)
MEASURE, INSPECT, PREPARE = 8, 16, 32
_PLACE: Final = 3
#: Of 1000: calls that are without the GIL for this share may run beside each other, on threads of their own.
_RELEASED: Final = 700
#: A call that uses CPU for less than 1 / this of its time sleeps or waits: cores do not limit it.
_LEAST_CPU: Final = 8
_MOST_SLEEPERS: Final = 32
#: What copying costs beyond the two ends, a megabyte.
_COPY_NS: Final = 100_000


class Cost:
    """What is measured of one call."""

    __slots__ = ("choice", "computed", "cpu_ns", "crossing", "crowd", "lag_ns", "next", "ran_ns", "released")

    def __init__(self, choice: Choice, next_: int) -> None:
        self.choice = choice
        choice.in_progress.add(self)
        self.crowd = len(choice.in_progress)
        # What the chooser has said of this call.
        self.next = next_
        self.ran_ns = self.cpu_ns = 0
        self.lag_ns: int | None = None
        self.released: int | None = None
        self.computed = False
        self.crossing: Crossing | None = None


@dataclasses.dataclass(frozen=True)
class PlacedRow:
    """What is known of one placed function, as people read it."""

    name: str
    placement: str
    reason: str
    calls: int
    expected_ms: float
    weight: str
    pinned: bool
    released_frac: float
    # Core's word for the reason, and whether it is still looking.
    why: str
    settled: bool


class Choice:
    """What is known of one placed function in this process. Methods may be called on any thread."""

    def __init__(self, function: PlacedFunction, pin: str, rule: ChoiceRule) -> None:
        """Know nothing yet.

        Args:
            function: what is placed.
            pin: where it must run; "auto" = not pinned.
            rule: the settings.
        """
        if function.mark == "heavy":
            rule = dataclasses.replace(rule, inline=False)
        self.function = function
        self.name = function.name
        self.pin = pin
        self.chooser = Chooser(**vars(rule))
        self.crossing = Crossing()
        # What its calls that have not ended cost so far. A set: its methods are whole under any thread.
        self.in_progress: set[Cost] = set()
        # How many calls may run at once on threads while one of these does.
        self.width = 1
        # Whether its source has been read, whether workers are being made ready, and what has been warned of.
        self.read = False
        self.preparing = False
        self.warned: set[str] = set()

    def refuse(self, why: str) -> None:
        """Never choose a worker process for it from now on."""
        self.crossing.refused = why
        self.chooser.refuse(time.monotonic_ns())

    def lost(self, cost: Cost) -> None:
        """Take note that a call has ended without teaching anything."""
        self.in_progress.discard(cost)
        self.chooser.lost(cost.next)

    def forked(self) -> None:
        """Start over in a forked child."""
        self.preparing = False
        self.in_progress = set()
        self.chooser.forked()

    def ended(self, call: Call, cost: Cost) -> None:
        """Take in what a call has cost that was not run where its caller is."""
        now_ns = time.monotonic_ns()
        self.in_progress.discard(cost)
        if call.state is not State.FINISHED:
            self.chooser.lost(cost.next)
            return
        if cost.crossing is not None:
            self._inspected(cost.crossing)
            return
        # Neither its turn in a queue nor the loop's own lag is counted: others make those.
        ran_ns = cost.ran_ns or call.ran_ns or now_ns - call.begun_ns
        took_ns = call.handed_ns + ran_ns + call.kept_ns
        lag_ns = cost.lag_ns
        if cost.next & _PLACE == PROCESS:
            lag_ns = max(call.handed_ns, call.kept_ns)
            took_ns += call.out_of_band * _COPY_NS // 1_000_000
            self.crossing.in_band, self.crossing.out_of_band = call.in_band, call.out_of_band
        self.chooser.observe(
            cost.next,
            now_ns,
            took_ns=took_ns,
            ran_ns=ran_ns,
            cpu_ns=cost.cpu_ns,
            lag_ns=lag_ns,
            released=cost.released,
            computed=cost.computed,
            crowd=cost.crowd,
        )
        if cost.released is not None:
            self.width = self._width()

    def row(self) -> PlacedRow:
        """Give what people read."""
        place, why, settled, weight, calls, expected_ns = self.chooser.chosen()
        seen = self.chooser.seen()
        costs = self.chooser.costs()
        pinned = self.pin != AUTO
        placement = self.pin if pinned else place
        at = _PLACES.index(placement) if placement in _PLACES else THREAD
        return PlacedRow(
            name=self.name,
            placement=placement,
            reason="pinned" if pinned else reason(place, why, seen, self.chooser.weighed(), costs, self.crossing),
            calls=calls,
            expected_ms=round((seen[at][1] or expected_ns) / 1e6, 3),
            weight=weight,
            pinned=pinned,
            released_frac=round(costs[1] / 1000, 3),
            why=why,
            settled=settled,
        )

    def _inspected(self, found: Crossing) -> None:
        self.crossing = found
        if found.refused:
            self.refuse(found.refused)
        else:
            self.chooser.inspected(found.kept_ns)

    def _width(self) -> int:
        cpu_ns, released, _ = self.chooser.costs()
        if released < _RELEASED:
            return 1
        took_ns = self.chooser.seen()[THREAD][1]
        return _MOST_SLEEPERS if cpu_ns * _LEAST_CPU < took_ns else len(os.sched_getaffinity(0))


def place_of(cost: Any) -> int:
    """Give the number of the place that a call was sent to."""
    return int(cost.next & _PLACE)
