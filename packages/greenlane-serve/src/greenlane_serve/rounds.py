"""What the tree looks at by the clock: limits set live, lanes assigned by what is learned, files that change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from greenlane.errors import GreenlaneError
from greenlane.hosts.pace import Pace
from greenlane_serve.group import Group, Slot
from greenlane_serve.haproxy.configuration import PUBLIC
from greenlane_serve.haproxy.front import Haproxy
from greenlane_serve.haproxy.runtime import Stream
from greenlane_serve.lanes import Layout
from greenlane_serve.places import Places
from greenlane_serve.settings import ServeSettings
from greenlane_serve.worker.ledger import Sums


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


# --- Clients that take their answers too slowly, and hold a worker's place meanwhile.


class SlowReaders:
    """A round of the tree, since HAProxy's own time-out starts again with each byte that a client takes.

    Only the time counts in which an answer waited for its client: streams of a silent server go on for ever. A client
    that takes nothing is HAProxy's to end. The kernel may hide for a while what one takes, so it is judged when it has
    taken something.
    """

    #: Pause between two looks, in s.
    every_s = 2.0

    def __init__(self) -> None:
        self._looked_s = 0.0
        # Of the streams that waited at the last look: what their clients had taken.
        self._known: dict[Stream, tuple[int, Pace]] = {}
        # Those that were ended and still have the rest of HAProxy's buffer. They hold no place.
        self._ended: set[Stream] = set()

    def look(self, service: Service, now_s: float) -> None:
        """End streams whose clients have fallen behind by `body_timeout_s`."""
        settings, runtime = service.settings, service.front.runtime
        if not settings.body_bytes_per_s:
            return
        # A longer time is not their fault: the machine was stopped, or a front has started.
        waited_s, self._looked_s = min(now_s - self._looked_s, 2 * self.every_s), now_s
        before, self._known = self._known, {}
        unread = runtime.unread(PUBLIC)
        ended = set()
        self._ended.intersection_update(unread)
        for stream, taken in unread.items():
            if stream in self._ended:
                continue
            at_first = taken, Pace(settings.body_timeout_s, settings.body_bytes_per_s)
            taken_before, pace = before.get(stream, at_first)
            pace.took(taken - taken_before, waited_s if stream in before else 0.0)
            if pace.left_s <= 0 and taken > taken_before:
                runtime.end(stream)
                ended.add(stream)
            else:
                self._known[stream] = taken, pace
        self._ended |= ended
        if ended:
            rate = settings.body_bytes_per_s
            service.say(f"requests ended because their clients read less than {rate} bytes/s: {len(ended)}")
