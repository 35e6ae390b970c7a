"""Refuses what would come too late: requests that waited in a queue before this process, judged as they are picked up.

The rule is greenlane-policy's `shed`: while a queue stands, refuse when the time that is left is less than the p99 of
what the lane's requests take in this process. Here is one for each lane.

Cost: 0.3 us a request; one that is refused costs no thread and no application.
"""

from __future__ import annotations

from collections.abc import Iterable

from greenlane._native import Shed
from greenlane.policy.shed import ShedRule

__all__ = ["Shedding"]


class Shedding:
    """What each lane's requests take here, and whether its queue stands. Any thread may call.

    Args:
        lanes: names; requests of others count as of none ("").
    """

    def __init__(self, lanes: Iterable[str]) -> None:
        rule = ShedRule.of()
        #: A request that waited less needs no check of its deadline: the header may be left unread.
        self.waited_ns = rule.waited_ns
        self._lanes = {name: Shed(**vars(rule)) for name in (*lanes, "")}
        self._none = self._lanes[""]

    def refuses(self, lane: str, arrival_ns: int, due_ns: int, now_ns: int) -> bool:
        """Whether a request is refused that is about to begin.

        Args:
            lane: "" = none.
            arrival_ns: when it came to the service, monotonic.
            due_ns: its deadline; 0 = none.
            now_ns: the time.
        """
        return self._lanes.get(lane, self._none).refuses(arrival_ns, due_ns, now_ns)

    def served(self, lane: str, took_ns: int, span_ns: int) -> None:
        """Note what a request took here; `span_ns`: its whole deadline, 0 = none."""
        self._lanes.get(lane, self._none).served(took_ns, span_ns)

    def p99_ms(self) -> dict[str, float]:
        """By lane; 0 = too few requests."""
        return {name: shed.p99_ns() / 1e6 for name, shed in self._lanes.items()}
