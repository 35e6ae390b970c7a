"""The bound that queueing sets: the same arrivals on one ideal processor, with free switches and no GIL.

Two orders, simulated exactly, event by event:

    fifo      phases in the order in which they became ready, each to its end (what gevent does at its best)
    priority  light phases at once, preempting; heavy phases in FIFO order, resumed where they were

No order can give the light class less wait than `priority`, and what it costs the heavy class against `fifo` is the
price of that priority: a measured ratio is to be read beside this one. facts: M/G/1 with preemptive-resume priority
(R. W. Conway, W. L. Maxwell, L. W. Miller, Theory of Scheduling, 1967, chapter 8); simulated rather than computed,
since offers come back after each upstream call.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from greenlane_tools.lab.load.plan import Plan
from greenlane_tools.lab.load.schedule import job_ms, schedule
from greenlane_tools.lab.statistics import quantile

# The upstream service's time.
IO_MS = 100.0
# A phase up to this long is light: greenlane's own default (setting heavy_ms).
LIGHT_MS = 4.0
# CPU before the upstream call of a surge request: parsing and connecting.
_BEFORE_CALL_MS = 1.0


@dataclass(frozen=True)
class Job:
    """One request on paper: when it comes, and its CPU phases in ms with `IO_MS` between them."""

    at_ms: float
    endpoint: str
    phases_ms: tuple[float, ...]


def jobs_of(plan: Plan) -> list[Job]:
    """The jobs of a plan's own schedule."""
    arrivals = schedule(plan)
    names = [stream.name for stream in plan.streams]
    found = zip(arrivals.at_ns.tolist(), arrivals.stream.tolist(), job_ms(plan, arrivals).tolist(), strict=True)
    return [Job(at_ns / 1e6, names[number], _phases(names[number], cpu_ms)) for at_ns, number, cpu_ms in found]


def _phases(endpoint: str, expected_ms: float) -> tuple[float, ...]:
    cpu_ms = max(0.01, expected_ms)
    if endpoint in ("bikes", "scooters"):
        return (cpu_ms / 4,) * 4
    if endpoint == "surge":
        before = min(_BEFORE_CALL_MS, cpu_ms / 2)
        return (before, cpu_ms - before)
    return (cpu_ms,)


class _Processor:
    """One processor, two queues; `run` gives each job's latency in ms."""

    def __init__(self, jobs: Sequence[Job], priority: bool) -> None:
        self._jobs = jobs
        self._priority = priority
        self._left = [list(job.phases_ms) for job in jobs]
        self._position = [0] * len(jobs)
        self._light: deque[int] = deque()
        self._heavy: deque[int] = deque()
        self._running = -1
        self._since_ms = 0.0
        # A finish event of an older epoch belongs to a phase that was preempted.
        self._epoch = 0
        self._events: list[tuple[float, int, int, int]] = []
        self._order = 0

    def run(self) -> list[float]:
        done = [0.0] * len(self._jobs)
        for number, job in enumerate(self._jobs):
            self._push(job.at_ms, -1, number)
        while self._events:
            now_ms, _, epoch, number = heapq.heappop(self._events)
            if epoch == -1:
                self._ready(now_ms, number)
            elif epoch == self._epoch:
                self._running = -1
                self._position[number] += 1
                if self._position[number] == len(self._left[number]):
                    done[number] = now_ms - self._jobs[number].at_ms
                else:
                    self._push(now_ms + IO_MS, -1, number)
                self._next(now_ms)
        return done

    def _push(self, at_ms: float, epoch: int, number: int) -> None:
        self._order += 1
        heapq.heappush(self._events, (at_ms, self._order, epoch, number))

    def _is_light(self, number: int) -> bool:
        return self._priority and self._jobs[number].phases_ms[self._position[number]] <= LIGHT_MS

    def _ready(self, now_ms: float, number: int) -> None:
        light = self._is_light(number)
        (self._light if light else self._heavy).append(number)
        if self._running == -1:
            self._next(now_ms)
        elif light and not self._is_light(self._running):
            preempted = self._running
            self._left[preempted][self._position[preempted]] -= now_ms - self._since_ms
            self._heavy.appendleft(preempted)
            self._next(now_ms)

    def _next(self, now_ms: float) -> None:
        queue = self._light or self._heavy
        if not queue:
            return
        self._epoch += 1
        self._running = queue.popleft()
        self._since_ms = now_ms
        self._push(now_ms + self._left[self._running][self._position[self._running]], self._epoch, self._running)


def latencies_ms(jobs: Sequence[Job], priority: bool) -> Mapping[str, list[float]]:
    """Latencies of each endpoint, ascending."""
    found: dict[str, list[float]] = {}
    for job, latency in zip(jobs, _Processor(jobs, priority).run(), strict=True):
        found.setdefault(job.endpoint, []).append(latency)
    return {name: sorted(values) for name, values in found.items()}


def p99_ratio(plans: Iterable[Plan], endpoint: str) -> float:
    """p99 of an endpoint under `priority` ÷ under `fifo`, pooled over the plans: the price that no order avoids."""
    everything = [jobs_of(plan) for plan in plans]
    ideal, fifo = (
        quantile(sorted(one for jobs in everything for one in latencies_ms(jobs, priority)[endpoint]), 0.99)
        for priority in (True, False)
    )
    return ideal / fifo
