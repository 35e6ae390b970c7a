"""Ends workers that hang: whose main thread, or loop, has not turned for `hung_after_s`.

A busy worker turns, however long its requests are: its threads share the interpreter with the one that beats. What
stops it is code that never lets go of the GIL, a loop that is blocked, a stopped process.
"""

from __future__ import annotations

from greenlane_serve.group import State
from greenlane_serve.rounds import Service

__all__ = ["Hung"]


class Hung:
    """A round of the tree."""

    #: Pause between two looks, in s.
    every_s = 1.0

    def __init__(self) -> None:
        self._looked_s = 0.0

    def look(self, service: Service, now_s: float) -> None:
        """End who is silent. After a pause of the tree itself (a stopped machine) everybody gets another chance."""
        slept = now_s - self._looked_s > 3 * self.every_s
        self._looked_s = now_s
        if slept:
            return
        for group in service.groups.values():
            for slot in group.of(State.SERVING, State.LEAVING):
                silent_s = now_s - max(service.last_turn_s(slot), slot.since_s)
                if silent_s > service.settings.hung_after_s:
                    group.hung(slot, now_s, silent_s)
