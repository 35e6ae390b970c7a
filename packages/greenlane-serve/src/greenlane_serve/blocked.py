"""Keeps new requests from a worker whose event loop is blocked, while others turn.

What it has is waited for; what its clients give up would make it look idle to the front, which would send it the next.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from greenlane_serve.group import Group, Slot, State
from greenlane_serve.rounds import Service

__all__ = ["Blocked"]

# uvicorn's loop gives a sign ten times a second; a machine that is busy is late by less.
_SILENT_S: Final = 0.5


class Blocked:
    """A round of the tree, for workers whose turns are those of their event loop."""

    #: Pause between two looks, in s.
    every_s = 0.25

    def __init__(self) -> None:
        self._looked_s = 0.0
        self._kept_from: set[Slot] = set()
        # Process ids of those of which the log knows.
        self._told: set[int] = set()

    def look(self, service: Service, now_s: float) -> None:
        """Shut who is silent, open who turns again. Where all are silent all stay open: nobody is better."""
        slept = now_s - self._looked_s > 3 * self.every_s  # the machine was stopped, perhaps: nobody has turned
        self._looked_s = now_s
        if slept:
            return
        for name, group in service.groups.items():
            silent = set(_silent(service, group, now_s))
            if len(silent) == len([slot for slot in group.of(State.SERVING) if slot.open]):
                silent = set()
            for slot in silent:  # again each time: another front may have come
                service.front.runtime.disable(name, slot.name)
                self._tell(service, name, slot)
            for slot in self._kept_from.intersection(group.slots) - silent:
                if slot.open:
                    service.front.runtime.enable(name, slot.name)
            self._kept_from = self._kept_from.difference(group.slots) | silent

    def _tell(self, service: Service, name: str, slot: Slot) -> None:
        """Once a process."""
        if slot.pid not in self._told:
            self._told.add(slot.pid)
            service.say(f"worker {name}/{slot.name} (pid {slot.pid}) blocks its loop: it gets nothing new meanwhile")


def _silent(service: Service, group: Group, now_s: float) -> Iterator[Slot]:
    for slot in group.of(State.SERVING):
        if slot.open and now_s - max(service.last_turn_s(slot), slot.since_s) > _SILENT_S:
            yield slot
