"""What the tree looks at by the clock: limits set live, lanes assigned by what is learned, files that change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from greenlane.errors import GreenlaneError
from greenlane_serve.group import Group, Slot
from greenlane_serve.haproxy.front import Haproxy
from greenlane_serve.lanes import Layout
from greenlane_serve.places import Places
from greenlane_serve.settings import ServeSettings
from greenlane_serve.worker.ledger import Sums

__all__ = ["Round", "Rounds", "Service"]


class Service(Protocol):
    """What a round sees of the tree, and may do."""

    settings: ServeSettings
    layout: Layout
    places: Places
    # Sockets and files of this service.
    folder: Path
    # By name; a group's slots tell pids and states.
    groups: Mapping[str, Group]
    # Its `runtime` has the counters.
    front: Haproxy
    # Times that it was told to read its settings again, and did.
    reloads: int

    def set_at_once(self, group: Group, number: int, why: str) -> None:
        """Requests that each worker of a group gets at once, from now on."""

    def last_turn_s(self, slot: Slot) -> float:
        """When a worker turned last, monotonic; 0 = it has not yet."""

    def told(self, slot: Slot) -> Sums | None:
        """What a worker has told of its requests; None = nothing yet."""

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

        A GreenlaneError is logged, and the round goes on.
        """


class Rounds:
    """All of them, and when each is due."""

    def __init__(self, first: Sequence[Round]) -> None:
        self._all = list(first)
        self._due_s: dict[Round, float] = {}

    def append(self, one: Round) -> None:
        """Add one, which is due at once."""
        self._all.append(one)

    def go(self, service: Service, now_s: float, failed: Callable[[GreenlaneError], None]) -> None:
        """Let each look that is due."""
        for one in self._all:
            if now_s >= self._due_s.get(one, 0.0):
                self._due_s[one] = now_s + one.every_s
                try:
                    one.look(service, now_s)
                except GreenlaneError as error:
                    failed(error)

    def next_s(self, now_s: float) -> float:
        """When the next one is due."""
        return min((self._due_s.get(one, now_s) for one in self._all), default=now_s)

    def all_due(self) -> None:
        """Let each look at the next opportunity: more has changed than it sees by itself."""
        self._due_s.clear()
