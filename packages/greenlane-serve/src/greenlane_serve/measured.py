"""What the workers did between two looks: what their requests cost, and what they got of the machine's cores.

Each worker counts its requests by clocks (`worker.clocks`) and tells the sums since its start in its ledger.
A worker that waits for a core because others use the machine is no idle one.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from greenlane_serve.rounds import Service
from greenlane_serve.worker.ledger import RouteSums, Sums

#: (route, jobs, CPU in ns) of requests that have ended, as `_native.HeavyRouteLane.look` takes it.
Ended = tuple[str, int, int]
#: Of workers, all together: time, CPU in it, how long their threads waited for a core; in ns, for
#: `_native.WorkerConcurrency`.
Times = tuple[int, int, int]


class WorkerWork(NamedTuple):
    """What has come from a worker between two of its answers."""

    span_ns: int
    ended: list[Ended]
    # All requests, those that have ended; how long requests were blocked, those in progress too, until ready.
    jobs: int = 0
    blocked_ns: int = 0
    # Wake-ups of its own, and how late they were together.
    wakes: int = 0
    late_ns: int = 0


class GroupWork(NamedTuple):
    """What the workers of a group did since the last look."""

    times: Times
    # As of one worker.
    jobs: int
    blocked_ns: int
    wakes: int
    late_ns: int
    ended: list[Ended]


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
                came[pid] = _came(now, before)
        self._before = dict(told)
        return came


def _came(now: Sums, before: Sums) -> WorkerWork:
    wakes, late_ns = sum(now.by_lag) - sum(before.by_lag), now.lag_ns - before.lag_ns
    mean_late_ns = late_ns / wakes if wakes else 0.0
    # A call that blocks returns when the GIL or the loop is free: that wait is none of the I/O.
    blocked_ns = now.blocked_ns - before.blocked_ns - (now.waits - before.waits) * mean_late_ns
    return WorkerWork(
        now.at_ns - before.at_ns,
        list(_ended(now, before)),
        sum(sums.jobs for sums in now.routes.values()) - sum(sums.jobs for sums in before.routes.values()),
        max(0, round(blocked_ns)),
        wakes,
        late_ns,
    )


def _ended(now: Sums, before: Sums) -> Iterator[Ended]:
    for route, sums in now.routes.items():
        new = RouteSums(*(here - then for here, then in zip(sums, before.routes.get(route, _NOTHING), strict=True)))
        # The new ones' mean; that of all if none of them was looked at. Unknown if none ever was.
        cpu_ns, cpu_jobs = (new.cpu_ns, new.cpu_jobs) if new.cpu_jobs else (sums.cpu_ns, sums.cpu_jobs)
        if new.jobs and cpu_jobs:
            yield route, new.jobs, round(max(0.0, cpu_ns / cpu_jobs) * new.jobs)


_NOTHING: Final = RouteSums(0, 0, 0)


def work_of_groups(
    service: Service, came: Mapping[int, WorkerWork], got: Mapping[int, CoreTimes]
) -> dict[str, GroupWork]:
    """By group, what its workers told, and what cores they got meanwhile."""
    worked: dict[str, GroupWork] = {}
    for name, group in service.groups.items():
        of = {slot.pid: came[slot.pid] for slot in group.slots if slot.pid in came}
        if of:
            worked[name] = GroupWork(
                times_of({pid: one.span_ns for pid, one in of.items()}, got),
                sum(one.jobs for one in of.values()),
                sum(one.blocked_ns for one in of.values()),
                sum(one.wakes for one in of.values()),
                sum(one.late_ns for one in of.values()),
                [row for one in of.values() for row in one.ended],
            )
    return worked


def times_of(spans_ns: Mapping[int, int], got: Mapping[int, CoreTimes]) -> Times:
    """Of processes, each in its span."""
    shares = [(span_ns, got.get(pid, CoreTimes(0.0, 0.0))) for pid, span_ns in spans_ns.items()]
    return (
        sum(spans_ns.values()),
        round(sum(span_ns * share.ran for span_ns, share in shares)),
        round(sum(span_ns * share.starved for span_ns, share in shares)),
    )


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
    """What a process got since its start, in ns; None = it has ended.

    It waited for cores in the threads that it still has. Some kernels, as gVisor's, do not say: 0.
    """
    starved = 0
    try:
        ran = cpu_ns_of(pid)
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError, IndexError, ValueError):  # the thread has ended
                with open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                    starved += int(file.read().split()[1])
    except OSError:
        return None
    return CoreTimes(ran, starved)
