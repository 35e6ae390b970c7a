"""A recording made by hand: a gevent service on a bad day, as rows, by a simulation small enough to be checked by eye.

Each worker is one loop that runs what is ready, first come first served. A job is CPU, a call of an upstream, CPU; what
it waits for after the reply is somebody else's slice, and which one is known exactly.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from greenlane_tools.reader.rows import (
    Blame,
    Call,
    Cost,
    Held,
    Job,
    Look,
    Own,
    Process,
    Resource,
    Sample,
    Segment,
    Stack,
    Turns,
    Unfinished,
)

MS = 1_000_000
S = 1_000 * MS


@dataclass(frozen=True)
class Endpoint:
    """CPU before and after a call of an upstream, in ms; `rate` a second."""

    rate: float
    before_ms: float
    upstream_ms: float
    after_ms: float
    upstream: str = "redis:6379"


BAD_DAY: Mapping[str, Endpoint] = {
    "GET /bikes": Endpoint(40, 0.6, 110, 0.9, "offers-db:5432"),
    "GET /quote": Endpoint(15, 2, 30, 3),
    "GET /report": Endpoint(0.4, 380, 5, 90, "warehouse:5432"),
    "GET /health": Endpoint(2, 0.1, 0, 0.1, ""),
}
#: 50 jobs of 2.5 ms slices at once: nobody is long, all are many.
CROWD: Mapping[str, Endpoint] = {"GET /price": Endpoint(190, 2.5, 55, 2.5, "prices:8080")}


@dataclass
class Made:
    """What `greenlane_tools.report.subject.Recording` asks for."""

    processes: list[Process] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    blame: list[Blame] = field(default_factory=list)
    resources: list[Resource] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    blocked: list[Held] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)
    own: list[Own] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    turns: list[Turns] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    unfinished: list[Unfinished] = field(default_factory=list)
    costs: list[Cost] = field(default_factory=list)
    marks: list[tuple[int, int, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    lives: dict[tuple[int, int], list[Segment]] = field(default_factory=dict)

    def segments(self, process: int, job: int) -> Sequence[Segment]:
        return self.lives.get((process, job), [])

    def culprits(self, process: int, job: int, from_ns: int, to_ns: int) -> Sequence[tuple[str, int]]:
        found: dict[str, int] = {}
        for each in self.segments(process, job):
            ns = min(each.to_ns, to_ns) - max(each.from_ns, from_ns)
            if each.state == "wait" and ns > 0:
                found[each.label] = found.get(each.label, 0) + ns
        return sorted(found.items(), key=lambda item: -item[1])


@dataclass
class _Running:
    number: int
    route: str
    arrival_ns: int
    #: (cpu ns, then I/O ns) pairs that are left.
    left: list[tuple[int, int]]
    ready_ns: int
    phase: int = 0
    cpu_ns: int = 0
    io_ns: int = 0
    waits: dict[str, int] = field(default_factory=dict)
    by: dict[str, int] = field(default_factory=dict)
    life: list[Segment] = field(default_factory=list)
    handler_ns: int = 0
    left_ns: int = 0


@dataclass
class _Sum:
    ns: int = 0
    waits: int = 0
    slices: set[int] = field(default_factory=set)
    longest_ns: int = 0
    by_length_ns: list[int] = field(default_factory=lambda: [0] * 32)


def a_day(
    endpoints: Mapping[str, Endpoint] = BAD_DAY,
    seconds: float = 30,
    workers: Sequence[float] = (0.7, 0.3),
    seed: int = 7,
) -> Made:
    """The rows of this many seconds.

    Args:
        workers: share of the arrivals by worker.
    """
    made = Made()
    sums: dict[tuple[str, str, str, int], _Sum] = {}
    for number, part in enumerate(workers):
        _work(made, number, part, endpoints, seconds, random.Random(seed + number), sums)
    made.blame = [
        Blame(victim, kind, culprit, phase, each.ns, each.waits, len(each.slices), each.longest_ns, each.by_length_ns)
        for (victim, kind, culprit, phase), each in sorted(sums.items(), key=lambda item: -item[1].ns)
    ]
    for culprit, ns in _by_culprit(made.blame).items():
        made.stacks += _stacks(culprit, ns)
    return made


def _work(
    made: Made, process: int, part: float, endpoints: Mapping[str, Endpoint], seconds: float, chance: random.Random,
    sums: dict[tuple[str, str, str, int], _Sum],
) -> None:  # fmt: skip
    start_ns = 1_000 * S
    arrivals: list[tuple[int, int, _Running]] = []
    numbers = itertools.count(1)
    for route, endpoint in endpoints.items():
        at = 0.0
        while endpoint.rate and (at := at + chance.expovariate(endpoint.rate * part)) < seconds:
            job = _Running(next(numbers), route, start_ns + int(at * S), _phases(endpoint, chance), 0)
            job.ready_ns = job.arrival_ns
            arrivals.append((job.ready_ns, job.number, job))
    queue = arrivals
    heapq.heapify(queue)
    now_ns, end_ns, used_ns = start_ns, start_ns + int(seconds * S), 0
    slices: list[tuple[int, int, str, int]] = []  # begin, end, route, phase
    next_sample_ns, lag_ns = start_ns + S, 0
    while queue:
        _, _, job = heapq.heappop(queue)
        now_ns = max(now_ns, job.ready_ns)
        lag_ns = max(lag_ns, now_ns - job.ready_ns)
        _blame(job, now_ns, slices, sums, first=job.phase == 0)
        job.handler_ns = job.handler_ns or now_ns
        cpu_ns, io_ns = job.left.pop(0)
        slices.append((now_ns, now_ns + cpu_ns, job.route, job.phase))
        job.life.append(Segment("cpu", "", now_ns, now_ns + cpu_ns, f"greenlet {job.number}", ""))
        if job.phase and job.left_ns:
            endpoint = endpoints[job.route]
            row = (process, job.number, job.route, endpoint.upstream, "query", job.left_ns, job.ready_ns, now_ns)
            made.calls.append(Call(*row, job.left_ns + 500 * MS, "ok"))
        now_ns += cpu_ns
        used_ns += cpu_ns
        job.cpu_ns += cpu_ns
        job.phase += 1
        if job.left:
            job.left_ns, job.ready_ns = now_ns, now_ns + io_ns
            job.io_ns += io_ns
            label = f"recv {endpoints[job.route].upstream}"
            job.life.append(Segment("io", "socket", now_ns, job.ready_ns, f"greenlet {job.number}", label))
            heapq.heappush(queue, (job.ready_ns, job.number, job))
        else:
            made.jobs.append(_closed(process, job, now_ns))
            made.lives[process, job.number] = job.life
        while now_ns >= next_sample_ns:
            made.samples.append(Sample(process, next_sample_ns, used_ns, 20 * MS, 90_000_000, 3, 5, lag_ns, 0))
            next_sample_ns, lag_ns = next_sample_ns + S, 0
    about: dict[str, object] = {"argv": ["gunicorn", "app:app"], "parent_pid": 99, "interval_ms": 5.0}
    made.processes.append(Process(process, 4100 + process, about, start_ns, max(now_ns, end_ns), 0, 0))


def _phases(endpoint: Endpoint, chance: random.Random) -> list[tuple[int, int]]:
    def around(ms: float, spread: float) -> int:
        return int(ms * MS * chance.lognormvariate(0, spread)) if ms else 0

    before = (around(endpoint.before_ms, 0.2), around(endpoint.upstream_ms, 0.08))
    return [before, (around(endpoint.after_ms, 0.2), 0)] if endpoint.upstream_ms else [(before[0], 0)]


def _blame(
    job: _Running, now_ns: int, slices: list[tuple[int, int, str, int]], sums: dict[tuple[str, str, str, int], _Sum],
    first: bool,
) -> None:  # fmt: skip
    if now_ns <= job.ready_ns:
        return
    kind = "accept" if first else "loop"
    job.waits[kind] = job.waits.get(kind, 0) + now_ns - job.ready_ns
    here: dict[str, int] = {}
    for place in range(len(slices) - 1, -1, -1):
        begin, end, route, phase = slices[place]
        if end <= job.ready_ns:
            break
        ns = min(end, now_ns) - max(begin, job.ready_ns)
        each = sums.setdefault((job.route, kind, route, phase), _Sum())
        each.ns += ns
        each.waits += route not in here
        each.slices.add(begin)
        each.longest_ns = max(each.longest_ns, end - begin)
        each.by_length_ns[max(0, ((end - begin) // 1000).bit_length() - 1)] += ns
        here[route] = here.get(route, 0) + ns
    for route, ns in here.items():
        job.by[route] = job.by.get(route, 0) + ns
    most = max(here, key=lambda route: here[route], default="unknown")
    job.life.append(Segment("wait", kind, job.ready_ns, now_ns, f"greenlet {job.number}", most))


def _closed(process: int, job: _Running, now_ns: int) -> Job:
    culprits = sorted(job.by.items(), key=lambda item: -item[1])[:8]
    return Job(
        process=process, job=job.number, route=job.route, host="gunicorn.gevent", status=200, clock="kernel",
        arrival_ns=job.arrival_ns, spawn_ns=job.handler_ns, handler_ns=job.handler_ns, end_ns=now_ns,
        deadline_ns=job.arrival_ns + 500 * MS, cpu_ns=job.cpu_ns, io_ns={"socket": job.io_ns} if job.io_ns else {},
        wait_ns=dict(job.waits), residual_ns=0, uncertain_ns=0, culprits=culprits,
    )  # fmt: skip


def _by_culprit(blame: Sequence[Blame]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in blame:
        found[row.culprit] = found.get(row.culprit, 0) + row.ns
    return found


def _stacks(culprit: str, ns: int) -> list[Stack]:
    name = culprit.rpartition("/")[2] or "root"
    base = f"run (/srv/app/wsgi.py:12);dispatch_request (/usr/lib/python3/site-packages/flask/app.py:1488);{name}"
    if name != "report":
        dumps = "dumps (/usr/lib/python3.11/json/__init__.py:238)"
        return [
            Stack(culprit, f"{base} (/srv/app/views.py:{20 + len(name)})", ns * 6 // 10),
            Stack(culprit, f"{base} (/srv/app/views.py:{24 + len(name)});{dumps}", ns * 4 // 10),
        ]
    whole = f"{base} (/srv/app/pricing.py:70);"
    return [
        Stack(culprit, f"{whole}total (/srv/app/pricing.py:88)", ns * 7 // 10),
        Stack(culprit, f"{whole}tax (/srv/app/pricing.py:131);loads (/usr/lib/python3.11/pickle.py:1213)", ns // 10),
        Stack(culprit, f"{whole}render (/usr/lib/python3/site-packages/jinja2/environment.py:1304)", ns // 10),
        Stack(culprit, f"{whole}round_all (/srv/app/money.py:9)", ns // 10),
    ]
