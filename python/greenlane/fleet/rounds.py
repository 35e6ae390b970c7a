"""What the tree looks at by the clock: limits set live, lanes assigned by what is learned, files that change."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from greenlane.fleet.group import Group, Slot
from greenlane.fleet.haproxy.front import Front
from greenlane.fleet.layout import Layout
from greenlane.fleet.places import Places
from greenlane.settings import Settings

__all__ = ["Round", "Service"]


class Service(Protocol):
    """What a round sees of the tree, and may do."""

    settings: Settings
    layout: Layout
    places: Places
    # Sockets and files of this service.
    folder: Path
    # By name; a group's slots tell pids and states.
    groups: Mapping[str, Group]
    # Its `runtime` has the counters.
    front: Front
    # Times that it was told to read its settings again, and did.
    reloads: int

    def set_at_once(self, group: Group, number: int, why: str) -> None:
        """Requests that each worker of a group gets at once, from now on."""

    def last_turn_s(self, slot: Slot) -> float:
        """When a worker turned last, monotonic; 0 = it has not yet."""

    def reload(self) -> None:
        """Read the settings again and replace every worker."""

    def say(self, text: str) -> None:
        """One line for the log."""


class Round(Protocol):
    """One of them."""

    #: Pause between two looks, in s.
    every_s: float

    def look(self, service: Service, now_s: float) -> None:
        """Look, and change what should be: in the tree's thread, so it must not block for more than some ms.

        A GreenlaneError is told in the log and the round goes on.
        """
