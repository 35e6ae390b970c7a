"""Refuses what would come too late: requests that waited in a queue before this process, judged as they are picked up.

The rule: while a queue stands, refuse when the time that is left is less than the p99 of the time that the lane's
requests take in this process. To drop only what is late already is useless: what is served then ends late as well.

A queue *stands* for a lane when for 100 ms nobody of it came without having waited. Below capacity queues come and go,
and a request with little time left may well make it: it is let in. What takes longer than the deadline by itself says
nothing of how long others may wait, and is left out of the p99; and a quarter of a deadline may always be waited, so
that places do not stand idle between two arrivals.

Cost: 1 us a request; one that is refused costs no thread and no application.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final

from greenlane.real import allocate_lock

__all__ = ["WAITED_NS", "Shedding"]

#: Shorter waits are no queue: the time of a hand-over on a busy machine.
WAITED_NS: Final = 5_000_000
#: A queue stands when for so long, and for so many requests, nobody came without having waited.
_STANDS_NS: Final = 100_000_000
_STANDS_COUNT: Final = 3
#: Requests whose times are remembered, new ones after which the p99 is taken anew, and fewest that it is taken of.
_REMEMBERED: Final = 256
_ANEW: Final = 16
_FRAC: Final = 0.99
#: Share of a deadline that a request is expected to take at most.
_MOST_FRAC: Final = 0.75


class Shedding:
    """What each lane's requests take here, and whether its queue stands. Any thread may call.

    Args:
        lanes: names; requests of others count as of none ("").
    """

    def __init__(self, lanes: Iterable[str]) -> None:
        self._lanes = {name: _Lane() for name in (*lanes, "")}
        self._mutex = allocate_lock()

    def refuses(self, lane: str, arrival_ns: int, due_ns: int, now_ns: int) -> bool:
        """Whether a request is refused that is about to begin.

        Args:
            lane: "" = none.
            arrival_ns: when it came to the service, monotonic.
            due_ns: its deadline; 0 = none.
            now_ns: the time.
        """
        seen = self._lanes.get(lane) or self._lanes[""]
        if now_ns - arrival_ns < WAITED_NS:
            seen.calm_ns, seen.queued = now_ns, 0
            return False
        seen.queued += 1
        if not due_ns:
            return False
        slack_ns = due_ns - now_ns
        if slack_ns <= 0:
            return True
        if seen.queued < _STANDS_COUNT or now_ns - seen.calm_ns < _STANDS_NS:
            return False
        return slack_ns < min(seen.p99_ns, _MOST_FRAC * (due_ns - arrival_ns))

    def served(self, lane: str, took_ns: int, span_ns: int) -> None:
        """Note what a request took here; `span_ns`: its whole deadline, 0 = none."""
        if span_ns and took_ns >= span_ns:
            return
        seen = self._lanes.get(lane) or self._lanes[""]
        with self._mutex:
            seen.note(took_ns)

    def p99_ms(self) -> dict[str, float]:
        """By lane; 0 = too few requests."""
        return {name: seen.p99_ns / 1e6 for name, seen in self._lanes.items()}


class _Lane:
    """One lane."""

    __slots__ = ("calm_ns", "new", "p99_ns", "queued", "times")

    def __init__(self) -> None:
        self.times: deque[int] = deque(maxlen=_REMEMBERED)
        self.new = 0
        self.p99_ns = 0
        # When somebody came last who had not waited, and how many have come since.
        self.calm_ns = 0
        self.queued = 0

    def note(self, took_ns: int) -> None:
        self.times.append(took_ns)
        self.new += 1
        if self.new >= _ANEW:
            self.new = 0
            ordered = sorted(self.times)
            self.p99_ns = ordered[min(int(len(ordered) * _FRAC), len(ordered) - 1)]
