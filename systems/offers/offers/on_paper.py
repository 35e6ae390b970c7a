"""A region's load served on paper: what order alone does to it, with neither machine nor server in the way.

One core, one process, and one of two rules:

fifo      phases run to their end, first come first served: what one cooperative loop does at best
permits   phases of up to 4 ms go first, heavier ones take turns and give way at once: what permits do at best

The same requests, w and ids as `offers.mix` sends, upstreams by their law; so the regions can be tuned on a machine
that is busy, and a change to the table that loses their shape is found by a test.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from offers.load import Load
from offers.table import Table
from offers.upstreams.law import latency_ms

__all__ = ["ANSWER_MS", "CALL_MS", "READ_MS", "Served", "serve"]

#: CPU around the table's: reading a request and finding its view, one upstream call, answering. What gunicorn, Flask
#: and urllib3 took on CPython 3.11 by the thread's CPU clock (`greenlane learned` of a worker under a little load).
READ_MS: Final = 0.5
CALL_MS: Final = 0.6
ANSWER_MS: Final = 0.6
#: Phases up to this need no permit: the setting heavy_ms as it is by default.
LIGHT_MS: Final = 4.0

Rule = Literal["fifo", "permits"]


@dataclass(frozen=True)
class Served:
    """What came of it."""

    #: float64, by request of the load.
    latency_ms: NDArray[np.float64]
    #: CPU over the load's seconds.
    utilisation_frac: float
    #: Most requests in progress at one time: threads that are needed.
    most_at_once: int


@dataclass
class _Job:
    number: int
    began_ms: float
    #: CPU of its phases to come, and for all but the last what is waited for after it.
    phases_ms: list[float]
    waits_ms: list[float]
    heavy: list[bool]


def serve(table: Table, load: Load, rule: Rule) -> Served:
    """Serves a load. Cost: some 20 µs a phase; a minute of load about a second."""
    jobs = _jobs(table, load)
    ready = [(job.began_ms, job.number) for job in jobs]
    heapq.heapify(ready)
    light: deque[_Job] = deque()
    heavy: deque[_Job] = deque()
    latency = np.zeros(len(jobs))
    now_ms, busy_ms, inside, most = 0.0, 0.0, 0, 0
    begun = set[int]()
    while ready or light or heavy:
        until_ms = ready[0][0] if ready else float("inf")
        if now_ms >= until_ms or not (light or heavy):
            at_ms, number = heapq.heappop(ready)
            now_ms = max(now_ms, at_ms)
            if number not in begun:
                begun.add(number)
                inside += 1
                most = max(most, inside)
            job = jobs[number]
            (heavy if rule == "permits" and job.heavy[0] else light).append(job)
            continue
        job = (light or heavy)[0]
        # Who came first among the light runs to its end; a heavy one runs until somebody comes.
        ran_ms = job.phases_ms[0] if light else min(job.phases_ms[0], until_ms - now_ms)
        now_ms, busy_ms = now_ms + ran_ms, busy_ms + ran_ms
        job.phases_ms[0] -= ran_ms
        if job.phases_ms[0] > 1e-9:
            continue
        (light or heavy).popleft()
        for column in (job.phases_ms, job.heavy):
            column.pop(0)
        if job.phases_ms:
            heapq.heappush(ready, (now_ms + job.waits_ms.pop(0), job.number))
        else:
            latency[job.number] = now_ms - job.began_ms
            inside -= 1
    return Served(latency, busy_ms / load.plan.seconds / 1e3, most)


def _jobs(table: Table, load: Load) -> list[_Job]:
    jobs = []
    rows = zip(load.schedule.at_ns, load.schedule.stream, load.schedule.work_ms, strict=True)
    for number, (at_ns, stream, amount) in enumerate(rows):
        one = load.plan.streams[stream]
        endpoint = table.endpoints[one.name]
        by_w = one.work is not None and one.work.parameter == "w"
        w, request_id = (float(amount), f"{one.name}-{amount}") if by_w else (1.0, f"{amount}")
        waits_ms = [
            latency_ms(table.upstreams[name], f"{request_id}-{call}") for call, name in enumerate(endpoint.calls, 1)
        ]
        expected_ms = endpoint.phases_ms()
        phases_ms = [cpu_ms * w + CALL_MS for cpu_ms in expected_ms]
        phases_ms[0] += READ_MS
        phases_ms[-1] += ANSWER_MS - CALL_MS
        heavy = [cpu_ms > LIGHT_MS for cpu_ms in expected_ms]
        jobs.append(_Job(number, at_ns / 1e6, phases_ms, waits_ms, heavy))
    return jobs
