"""One worker's turn: it starts on an empty broker, works, is killed; then it is seen what happened to each order."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from greenlane_tools.lab.ending import checkpoint
from greenlane_tools.lab.processes import StartFailed, cpu_ns, pss_mb
from pos.children import Process
from pos.journal import TERMINAL, Entry, Event, Follower
from pos.queueing import DEAD, DIVERTED, QUEUE
from pos.site import Site

#: A worker that has not begun an order by then does not start at all.
_START_S: Final = 60.0
_LOOK_S: Final = 0.05
_MOVES_S: Final = 0.1
_RETURN_S: Final = 1.0
# Memory and parked orders are looked at so often.
_MEMORY_S: Final = 1.0


@dataclass
class Usage:
    """What a worker with all its processes used, between two instants.

    Args:
        cpu_ns: CPU time.
        wall_ns: between the instants.
        pss_mb: memory at its largest, shared pages divided.
        processes: how many there were.
        parked_most: orders that it held without a slot; None = it has no such thing.
    """

    cpu_ns: int = 0
    wall_ns: int = 0
    pss_mb: float = 0.0
    processes: int = 0
    parked_most: int | None = None

    def __add__(self, other: Usage) -> Usage:
        """Of two stretches of time, one."""
        parked = [each.parked_most for each in (self, other) if each.parked_most is not None]
        return Usage(
            self.cpu_ns + other.cpu_ns, self.wall_ns + other.wall_ns, max(self.pss_mb, other.pss_mb),
            max(self.processes, other.processes), max(parked, default=None),
        )  # fmt: skip


@dataclass
class Turn:
    """A running worker, and what the journal has told since it started.

    Args:
        site: where.
        contender: whose turn it is.
        worker: its process.
        entries: of the journal, in its order.
    """

    site: Site
    contender: str
    worker: Process
    follower: Follower
    entries: list[Entry] = field(default_factory=list)

    def look(self) -> None:
        """Reads what is new.

        Raises:
            StartFailed: the worker has ended.
        """
        checkpoint()
        self.entries += self.follower.new()
        if not self.worker.running():
            raise StartFailed(
                f"run {self.worker.command}: it ended, expected it to stay; it said:\n{self.worker.said()}"
            )

    def first(self) -> float:
        """Blocks until an order has begun; how long after the worker's start, in s.

        Raises:
            StartFailed: none does.
        """
        until = time.monotonic() + _START_S
        while not self.entries:
            self.look()
            if time.monotonic() > until:
                raise StartFailed(
                    f"start a worker: no order begun after {_START_S:g} s; it said:\n{self.worker.said()}"
                )
            time.sleep(0.005)
        return (self.entries[0].at_ns - self.worker.started_ns) / 1e9

    def until_done(self, count: int) -> None:
        """Blocks until this many orders are done."""
        while sum(entry.event == Event.DONE for entry in self.entries) < count:
            self.look()
            time.sleep(_LOOK_S)

    def used(self, until_ns: int) -> Usage:
        """Blocks until then; what the worker uses meanwhile."""
        used, start_ns, pids = Usage(), time.monotonic_ns(), self.worker.pids()
        before_ns, next_s = cpu_ns(pids), 0.0
        while time.monotonic_ns() < until_ns:
            self.look()
            if time.monotonic() >= next_s:
                used.pss_mb = max(used.pss_mb, pss_mb(pids))
                next_s = time.monotonic() + _MEMORY_S
                parked = self.site.parked(self.contender)
                used.parked_most = parked if parked is None else max(used.parked_most or 0, parked)
            time.sleep(_LOOK_S)
        used.cpu_ns, used.wall_ns = cpu_ns(pids) - before_ns, time.monotonic_ns() - start_ns
        used.processes = len(pids)
        return used


@contextmanager
def turn(site: Site, contender: str) -> Iterator[Turn]:
    """A worker that is started now, and killed with all its processes when the block ends."""
    follower = Follower(site.around.journal, from_end=True)
    worker = site.start_worker(contender)
    running = Turn(site, contender, worker, follower)
    try:
        yield running
    finally:
        site.workers.pop(contender).kill()
        running.entries += follower.new()
        follower.close()


def lost(site: Site, published: Collection[str], ended: Collection[str]) -> int:
    """How many of these orders have neither come to an end nor are anywhere in the broker, which is emptied.

    Blocks until the broker has noticed that its consumers are gone.
    """
    missing = set(published) - set(ended)
    with site.app.connection_for_read() as connection:
        channel = connection.default_channel
        while channel.queue_declare(QUEUE, passive=True).consumer_count:
            checkpoint()
            time.sleep(_LOOK_S)
        until = time.monotonic() + _RETURN_S
        while missing and time.monotonic() < until:
            # What its consumers had comes back a moment after they are gone.
            missing -= _drained(channel, (QUEUE, DIVERTED, DEAD))
        if missing:
            # Workers make queues of their own for what waits a while.
            missing -= _drained(channel, list(site.broker.depths()))
    return len(missing)


def _drained(channel: Any, queues: Sequence[str]) -> set[str]:
    """The ids of all orders in these queues; the broker moves orders between them itself: none may slip by."""
    found = set[str]()
    while new := {order for queue in queues for order in _taken(channel, queue)}:
        found |= new
        time.sleep(_MOVES_S)
    return found


def _taken(channel: Any, queue: str) -> Iterator[str]:
    while (message := channel.basic_get(queue, no_ack=True)) is not None:
        yield str(message.headers.get("id"))


def effects(site: Site, prefix: str, merchants: Sequence[str]) -> dict[str, int]:
    """Of the orders whose ids begin so: calls made more than once, effects had more than once."""
    sums = {"calls_repeated": 0, "effects_doubled": 0}
    for merchant in merchants:
        of_order: dict[str, Any] = site.effects(merchant, orders=True)["of_order"]
        for order, (calls, effects) in of_order.items():
            if order.startswith(f"{prefix}-"):
                sums["calls_repeated"] += calls - 1
                sums["effects_doubled"] += max(0, effects - 1)
    return sums


def failures(entries: Sequence[Entry], prefix: str) -> int:
    """Attempts at orders whose ids begin so that failed, were refused or given up."""
    bad = (Event.FAILED, Event.REFUSED, Event.DEAD)
    return sum(entry.event in bad and entry.order.startswith(f"{prefix}-") for entry in entries)


def ended(entries: Sequence[Entry]) -> set[str]:
    """Orders that have come to an end."""
    return {entry.order for entry in entries if entry.event in TERMINAL}
