"""One CPU, one loop, time in cells: what each request does in each of them. Exact, and as simple as the article's.

A request alternates between bursts of CPU and waits for the network, beginning and ending with a burst. Three orders in
which ready requests get the CPU; the first two never interrupt a burst:

    GEVENT   all new requests; then a look at the sockets, and everything that it finds ready; then the new ones again
    FIRST    whoever has been ready for longest
    LIGHT    at each cell anew: the request whose burst is shortest (what permits come to, at a cell's grain)

The same as `gevent_loop` and `fifo_loop` of `greenlane_tools.lab.queueing`, which know no cells; a test compares them.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["CELL_MS", "Cell", "Lived", "Order", "Request", "run"]

CELL_MS = 10


class Cell(enum.Enum):
    """What a request does in a cell."""

    CPU = "cpu"
    NETWORK = "network"
    #: It could run, and somebody else does.
    WAIT = "wait"


class Order(enum.Enum):
    """Who goes next."""

    GEVENT = "gevent"
    FIRST = "first"
    LIGHT = "light"


@dataclass(frozen=True)
class Request:
    """What one request needs, in cells: bursts of CPU, and one wait less between them."""

    bursts: tuple[int, ...]
    waits: tuple[int, ...]
    #: Cell at whose beginning it arrives.
    arrives: int = 0

    @property
    def cpu(self) -> int:
        """All its CPU."""
        return sum(self.bursts)

    @property
    def alone(self) -> int:
        """How long it takes with nobody else there."""
        return self.cpu + sum(self.waits)


@dataclass
class Lived:
    """One request's life."""

    request: Request
    #: What it did in each cell from its arrival to its end.
    cells: list[Cell] = field(default_factory=list)
    #: First cell in which it had the CPU, and the one behind its last; -1 before.
    began: int = -1
    ended: int = -1
    #: For each wait: cells of network, and cells until it had the CPU again, as the application measures it.
    seen: list[tuple[int, int]] = field(default_factory=list)
    stage: int = 0
    left: int = 0
    #: Since when its present state is what it is.
    since: int = 0

    @property
    def late(self) -> int:
        """Cells that it was ready for and did not get, from its first burst on."""
        return sum(seen - network for network, seen in self.seen)


def run(requests: Sequence[Request], order: Order = Order.GEVENT, places: int = 0) -> list[Lived]:
    """Lives of the requests, in their order.

    Args:
        places: at most so many at once, the others wait before their first instruction; 0 = no bound.
    """
    return _Loop(requests, order, places or len(requests)).run()


class _Loop:
    def __init__(self, requests: Sequence[Request], order: Order, places: int) -> None:
        self._lives = [Lived(one, left=one.bursts[0], since=one.arrives) for one in requests]
        self._order = order
        self._room = places
        self._now = 0
        #: By arrival, not yet begun.
        self._coming = deque(sorted(self._lives, key=lambda life: life.request.arrives))
        #: Begun and not yet run (gevent's callbacks), then found ready by the last look, then blocked.
        self._new: deque[Lived] = deque()
        self._found: deque[Lived] = deque()
        self._blocked: list[tuple[int, int, Lived]] = []
        self._turn = 0

    def run(self) -> list[Lived]:
        self._accept()
        while self._new or self._found or self._blocked or self._coming:
            life = self._next()
            if life is None:
                self._idle()
            else:
                self._burst(life, 1 if self._order is Order.LIGHT else life.left)
        return self._lives

    def _accept(self) -> None:
        while self._room and self._coming and self._coming[0].request.arrives <= self._now:
            self._room -= 1
            life = self._coming.popleft()
            life.since = self._now
            self._new.append(life)

    def _look(self) -> None:
        """Whose network is ready by now, in the order in which it became so."""
        ready = sorted(one for one in self._blocked if one[0] <= self._now)
        self._blocked = [one for one in self._blocked if one[0] > self._now]
        self._found.extend(life for _, _, life in ready)

    def _next(self) -> Lived | None:
        if self._order is Order.GEVENT:
            if not self._new and not self._found:
                self._accept()
                self._look()
            queue = self._found or self._new
            return queue.popleft() if queue else None
        self._accept()
        self._look()
        ready = [*self._new, *self._found]
        if not ready:
            return None
        by_burst = self._order is Order.LIGHT
        chosen = min(ready, key=lambda life: (_burst(life) if by_burst else 0, life.since, ready.index(life)))
        (self._new if chosen in self._new else self._found).remove(chosen)
        return chosen

    def _idle(self) -> None:
        soonest = [at for at, _, _ in self._blocked]
        if self._room and self._coming:
            soonest.append(self._coming[0].request.arrives)
        self._now = max(self._now + 1, min(soonest, default=self._now + 1))

    def _burst(self, life: Lived, cells: int) -> None:
        life.cells += [Cell.WAIT] * (self._now - life.request.arrives - len(life.cells))
        if life.began < 0:
            life.began = self._now
        if life.stage and life.left == life.request.bursts[life.stage]:
            network = life.request.waits[life.stage - 1]
            life.seen.append((network, network + self._now - life.since))
        life.cells += [Cell.CPU] * cells
        life.left -= cells
        self._now += cells
        if life.left:
            self._found.append(life)
        elif life.stage == len(life.request.waits):
            life.ended = self._now
            self._room += 1
            self._accept()
        else:
            self._block(life)

    def _block(self, life: Lived) -> None:
        network = life.request.waits[life.stage]
        life.cells += [Cell.NETWORK] * network
        life.stage += 1
        life.left = life.request.bursts[life.stage]
        life.since = self._now + network
        self._turn += 1
        self._blocked.append((life.since, self._turn, life))


def _burst(life: Lived) -> int:
    return life.request.bursts[life.stage]
