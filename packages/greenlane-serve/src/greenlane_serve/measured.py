"""What the workers did between two looks: what their requests cost, and what they got of the machine's cores.

Each worker counts its requests by clocks (`worker.clocks`) and tells the sums since its start in its ledger.
A worker whose requests stay long because others use the machine is no worker that has too many of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from greenlane_serve.haproxy.runtime import Row
from greenlane_serve.rounds import Service
from greenlane_serve.worker.ledger import RouteSums, Sums

__all__ = [
    "WorkerWork",
    "Cores",
    "Ended",
    "CoreTimes",
    "Since",
    "GroupWork",
    "cpu_ns_of",
    "core_times_of",
    "work_of_groups",
]

#: (route, jobs, CPU, I/O until ready in ns) of requests that have ended, as `_native.AtOnce.look` takes it.
Ended = tuple[str, int, int, int]


class WorkerWork(NamedTuple):
    """What has come from a worker between two of its answers."""

    span_ns: int
    ended: list[Ended]


class GroupWork(NamedTuple):
    """What the workers of a group did since the last look."""

    # The time that it is of, all workers together; the same with each worker's times the requests that it had.
    worked_ns: int
    held_ns: int
    ended: list[Ended]
    # In that time, CPU of the workers, and how long their threads waited for a core; 0 = unknown.
    ran_ns: int = 0
    starved_ns: int = 0


class Since:
    """Sums since each process's start, turned into what has come since the last call."""

    def __init__(self) -> None:
        self._before: dict[int, Sums] = {}

    def take(self, told: Mapping[int, Sums]) -> dict[int, WorkerWork]:
        """By process; of one that is new nothing, since nobody knows how long that took."""
        came: dict[int, WorkerWork] = {}
        for pid, now in told.items():
            before = self._before.get(pid)
            if before is not None and before.at_ns != now.at_ns:
                came[pid] = WorkerWork(now.at_ns - before.at_ns, list(_ended(now, before)))
        self._before = dict(told)
        return came


def _ended(now: Sums, before: Sums) -> Iterator[Ended]:
    late_ns = (
        _mean(now.lag_ns - before.lag_ns, sum(now.by_lag) - sum(before.by_lag), now.lag_ns, sum(now.by_lag)) or 0.0
    )
    for route, sums in now.routes.items():
        new = RouteSums(*(here - then for here, then in zip(sums, before.routes.get(route, _NOTHING), strict=True)))
        cpu_ns = _mean(new.cpu_ns, new.cpu_jobs, sums.cpu_ns, sums.cpu_jobs)
        # A call that blocks returns when the GIL or the loop is free: that wait is none of the I/O.
        io_ns = _mean(
            new.blocked_ns - new.waits * late_ns, new.sampled, sums.blocked_ns - sums.waits * late_ns, sums.sampled
        )
        if new.jobs and cpu_ns is not None and io_ns is not None:
            yield route, new.jobs, round(cpu_ns * new.jobs), round(io_ns * new.jobs)


_NOTHING: Final = RouteSums(0, 0, 0, 0, 0, 0)


def _mean(new: float, number: int, of_all: float, all_number: int) -> float | None:
    """Of the new ones; of all if none of them was looked at; None = none ever was."""
    if number:
        return max(0.0, new / number)
    return max(0.0, of_all / all_number) if all_number else None


def work_of_groups(
    service: Service, came: Mapping[int, WorkerWork], rows: Sequence[Row], got: Mapping[int, CoreTimes]
) -> dict[str, GroupWork]:
    """By group, what its workers told, with how many requests each has at the front now, and what cores they got."""
    current = {(row.backend, row.server): row.current for row in rows}
    worked: dict[str, GroupWork] = {}
    for name, group in service.groups.items():
        of = [(came[slot.pid], slot) for slot in group.slots if slot.pid in came]
        if of:
            shares = [(one.span_ns, got.get(slot.pid, CoreTimes(0.0, 0.0))) for one, slot in of]
            worked[name] = GroupWork(
                sum(one.span_ns for one, _ in of),
                sum(one.span_ns * current.get((name, slot.name), 0) for one, slot in of),
                [row for one, _ in of for row in one.ended],
                round(sum(span_ns * share.ran for span_ns, share in shares)),
                round(sum(span_ns * share.starved for span_ns, share in shares)),
            )
    return worked


# A process that is not asked about for this long is forgotten. Arbitrary.
_KEPT_S: Final = 600.0
# Linux: a process's CPU clock is (~pid << 3) | 2; include/linux/posix-timers.h.
_CPUCLOCK_SCHED: Final = 2


class CoreTimes(NamedTuple):
    """Of a process, all threads together, since its start; or as shares of the time since the last look."""

    ran: float
    # Threads that could run side by side wait side by side: it may be more than the time.
    starved: float


class Cores:
    """What processes got since they were last asked about.

    Args:
        of: what one got since its start, in ns; None = it has ended.
        clock: monotonic, in s.
    """

    def __init__(
        self,
        of: Callable[[int], CoreTimes | None] = lambda pid: core_times_of(pid),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._of = of
        self._clock = clock
        self._before: dict[int, tuple[float, CoreTimes]] = {}

    def take(self, pids: Iterable[int]) -> dict[int, CoreTimes]:
        """Shares of the time since each was last asked about; of one that is new nothing.

        Cost: some 10 µs for each of their threads.
        """
        shares = {}
        for pid in pids:
            now_s, now = self._clock(), self._of(pid)
            if now is None:
                continue
            if pid in self._before and (span_ns := (now_s - self._before[pid][0]) * 1e9) > 0:
                pairs = zip(now, self._before[pid][1], strict=True)
                shares[pid] = CoreTimes(*(max(0.0, (here - then) / span_ns) for here, then in pairs))
            self._before[pid] = now_s, now
        oldest_s = self._clock() - _KEPT_S
        self._before = {pid: one for pid, one in self._before.items() if one[0] > oldest_s}
        return shares


def cpu_ns_of(pid: int) -> int:
    """CPU of a process since its start; OSError = it has ended."""
    return time.clock_gettime_ns((~pid << 3) | _CPUCLOCK_SCHED)


def core_times_of(pid: int) -> CoreTimes | None:
    """What a process got since its start, in ns, of the threads that it has; None = it has ended, or is not ours."""
    ran = starved = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                    words = file.read().split()
            except OSError:  # the thread has ended
                continue
            ran, starved = ran + int(words[0]), starved + int(words[1])
    except (OSError, IndexError, ValueError):
        return None
    return CoreTimes(ran, starved)
