"""Made-up recordings whose truth is known: a pricing service on gevent, and one on threads.

A simulation stands behind them: one loop or one GIL that jobs take turns on, first come first served. `pricing()` is a
whole recording of several processes, good for whatever reads recordings.
"""

from __future__ import annotations

import heapq
import json
import random
from dataclasses import dataclass, field
from pathlib import Path

from greenlane.phase import Kind
from greenlane_testing import RecordingWriter

US, MS, S = 1_000, 1_000_000, 1_000_000_000
THREAD, GREENLET, TASK, LOOP = range(4)
GIL, WAIT_LOOP, PERMIT, ACCEPT, LOCK, POOL, OS, STOPPED = range(8)
KERNEL_CLOCK, ACCEPT_CLOCK = 3, 2
HELD, EXACT = 1, 2
START_NS = 1_000 * S

STACK_REPORT = "handle (gunicorn/workers/base_async.py:55);report (pricing.py:71);totals (pricing.py:88)"
STACK_ROWS = "handle (gunicorn/workers/base_async.py:55);report (pricing.py:71);rows (pricing.py:93)"
STACK_LEGACY = "handle (gunicorn/workers/base_async.py:55);legacy (pricing.py:120);rate (legacy.py:14)"


@dataclass(frozen=True)
class Cpu:
    ns: int
    stack: str = ""
    gc_ns: int = 0


@dataclass(frozen=True)
class Upstream:
    """A call that gives way to others until its reply is there."""

    upstream: str
    operation: str
    ns: int
    #: 0 = none.
    timeout_ns: int = 0
    #: By its own clock; 0 = it does not say.
    own_ns: int = 0


@dataclass(frozen=True)
class Held:
    """A call that blocks the whole loop."""

    call: str
    peer: str
    ns: int
    stack: str = ""


Step = Cpu | Upstream | Held


@dataclass(frozen=True)
class Request:
    route: str
    arrival_ns: int
    steps: tuple[Step, ...]
    deadline_ns: int = 0
    status: int = 200


@dataclass
class Truth:
    """What accounting must find for one job."""

    route: str
    cpu_ns: int = 0
    io_ns: int = 0
    #: By kind.
    wait_ns: dict[str, int] = field(default_factory=dict)
    end_ns: int = 0

    def wait(self, kind: str, ns: int) -> None:
        if ns:
            self.wait_ns[kind] = self.wait_ns.get(kind, 0) + ns


def about(host: str, **more: object) -> str:
    return json.dumps(
        {
            "command": ["gunicorn", "-k", host.rpartition(".")[2], "pricing:app"],
            "python": "3.11.7",
            "greenlane": "0.1.0",
            "host": host,
            "machine": {"cores": 2, "system": "Linux 6.1"},
            **more,
        }
    )


@dataclass
class _Job:
    """A request in progress."""

    number: int
    request: Request
    unit: int
    spawn_ns: int
    steps: list[Step]
    phase: int = 0
    #: What it is blocked on, since when.
    call: Upstream | None = None
    left_ns: int = 0


class GreenService:
    """A process with one loop: `run` writes its requests down and gives the truth about each, by job number."""

    ACCEPT_NS = 30 * US

    def __init__(self, process: int, pid: int, *, origin_ns: int = START_NS, kind: int = GREENLET) -> None:
        self.writer = RecordingWriter(process, pid)
        self.kind, self.thread, self.origin_ns = kind, pid, origin_ns
        self.truth: dict[int, Truth] = {}
        self._now_ns = origin_ns
        self._cpu_ns = 0
        self.writer.event("about", at_ns=origin_ns, json=about("gunicorn.gevent", worker=pid))
        self.writer.event("mark", at_ns=origin_ns, what="on")
        self.writer.event("unit", at_ns=origin_ns, unit=1, kind=THREAD, thread=pid, name="MainThread")
        self.writer.event("unit", at_ns=origin_ns, unit=2, kind=LOOP, thread=pid, name="Hub")

    def run(self, requests: list[Request]) -> dict[int, Truth]:
        turn = len(requests)
        ready: list[tuple[int, int, Request | _Job]] = [
            (request.arrival_ns, number, request) for number, request in enumerate(requests)
        ]
        heapq.heapify(ready)
        next_sample_ns, lag_ns, active = self.origin_ns + S, 0, 0
        while ready:
            ready_ns, _, who = heapq.heappop(ready)
            turn += 1
            lag_ns = max(lag_ns, self._now_ns - ready_ns)
            while next_sample_ns < max(self._now_ns, ready_ns):
                self._sample(next_sample_ns, active, lag_ns)
                next_sample_ns, lag_ns = next_sample_ns + S, 0
            self._now_ns = max(self._now_ns, ready_ns)
            if isinstance(who, Request):
                active += 1
                heapq.heappush(ready, (self._now_ns + self.ACCEPT_NS, turn, self._accept(who)))
                continue
            self._resume(who, ready_ns)
            if self._run(who):
                assert who.call is not None
                heapq.heappush(ready, (self._now_ns + who.call.ns, turn, who))
            else:
                active -= 1
        return self.truth

    def chunk(self) -> bytes:
        return self.writer.chunk()

    def _accept(self, request: Request) -> _Job:
        spawn_ns = self._now_ns + self.ACCEPT_NS
        self.writer.event("slice", unit=2, from_ns=self._now_ns, to_ns=spawn_ns)
        number = len(self.truth) + 1
        self.truth[number] = Truth(request.route)
        self.truth[number].wait("accept", spawn_ns - request.arrival_ns)
        job = _Job(number, request, 100 + number, spawn_ns, list(request.steps))
        self.writer.event(
            "unit",
            at_ns=spawn_ns,
            unit=job.unit,
            kind=self.kind,
            thread=self.thread,
            parent=2,
            name=f"Greenlet-{number}",
        )
        self._now_ns = spawn_ns
        return job

    def _resume(self, job: _Job, ready_ns: int) -> None:
        now_ns, truth = self._now_ns, self.truth[job.number]
        truth.wait("loop", now_ns - ready_ns)
        if job.call is None:
            self.writer.event(
                "job_open",
                at_ns=now_ns,
                job=job.number,
                unit=job.unit,
                arrival_ns=job.request.arrival_ns,
                spawn_ns=job.spawn_ns,
                deadline_ns=job.request.deadline_ns,
                clock=KERNEL_CLOCK,
                host="gunicorn.gevent",
            )
            self.writer.event("job_name", at_ns=now_ns, job=job.number, route=job.request.route)
            return
        truth.io_ns += ready_ns - job.left_ns
        unit = {"unit": job.unit, "job": job.number, "from_ns": job.left_ns, "ready_ns": ready_ns, "to_ns": now_ns}
        call = job.call
        self.writer.event("block", **unit, kind=Kind.SOCKET, flags=EXACT, call="recv", peer=call.upstream)
        late = call.timeout_ns and call.ns > call.timeout_ns
        self.writer.event(
            "call",
            **unit,
            deadline_ns=job.left_ns + call.timeout_ns if call.timeout_ns else 0,
            upstream=call.upstream,
            operation=call.operation,
            outcome=2 if late else 0,
            own_ns=call.own_ns,
        )
        job.call = None

    def _run(self, job: _Job) -> bool:
        """Run until the job blocks (True) or is done (False)."""
        begin_ns = self._now_ns
        while job.steps:
            step = job.steps.pop(0)
            if isinstance(step, Upstream):
                self._slice(job, begin_ns)
                job.call, job.left_ns = step, self._now_ns
                return True
            if isinstance(step, Cpu):
                self._compute(job, step)
            else:
                self._slice(job, begin_ns)
                self._hold(job, step)
                begin_ns = self._now_ns
        self._slice(job, begin_ns)
        truth = self.truth[job.number]
        truth.end_ns = self._now_ns
        self.writer.event("job_close", at_ns=self._now_ns, job=job.number, status=job.request.status)
        return False

    def _compute(self, job: _Job, step: Cpu) -> None:
        from_ns, to_ns = self._now_ns, self._now_ns + step.ns
        if step.gc_ns:
            middle_ns = from_ns + step.ns // 2
            self.writer.event("gc", from_ns=middle_ns, to_ns=middle_ns + step.gc_ns, unit=job.unit, generation=2)
        if step.stack:
            for at_ns in range(from_ns + 5 * MS, to_ns, 10 * MS):
                self.writer.event(
                    "stack", at_ns=at_ns, unit=job.unit, job=job.number, weight_ns=10 * MS, stack=step.stack
                )
        self.truth[job.number].cpu_ns += step.ns
        self._now_ns = to_ns

    def _hold(self, job: _Job, step: Held) -> None:
        from_ns, to_ns = self._now_ns, self._now_ns + step.ns
        of = {"unit": job.unit, "job": job.number}
        if step.stack:
            self.writer.event("stack", at_ns=from_ns + step.ns // 2, **of, weight_ns=step.ns, stack=step.stack)
        self.writer.event(
            "block",
            **of,
            from_ns=from_ns,
            to_ns=to_ns,
            kind=Kind.SOCKET,
            flags=HELD | EXACT,
            call=step.call,
            peer=step.peer,
        )
        self.truth[job.number].io_ns += step.ns
        self._now_ns = to_ns

    def _slice(self, job: _Job, from_ns: int) -> None:
        if self._now_ns > from_ns:
            ns = self._now_ns - from_ns
            of = {"unit": job.unit, "job": job.number, "phase": job.phase}
            cpu = {"cpu_ns": ns} if ns >= 250 * US else {}
            self.writer.event("slice", from_ns=from_ns, to_ns=self._now_ns, **of, **cpu)
            job.phase += 1
            self._cpu_ns += ns

    def _sample(self, at_ns: int, active: int, lag_ns: int) -> None:
        self.writer.event(
            "process",
            at_ns=at_ns,
            cpu_ns=self._cpu_ns,
            os_wait_ns=self._cpu_ns // 50,
            rss_bytes=60_000_000,
            threads=3,
            jobs=active,
            lag_ns=lag_ns,
            loop_ns=30_000,
        )


def thread_service(process: int, pid: int, *, seconds: int = 10, origin_ns: int = START_NS) -> bytes:
    """A process with two worker threads: `GET /health` waits for the GIL while `POST /price` computes."""
    writer = RecordingWriter(process, pid)
    writer.event("about", at_ns=origin_ns, json=about("gunicorn.gthread", worker=pid))
    writer.event("mark", at_ns=origin_ns, what="on")
    for unit in (1, 2):
        name = f"ThreadPoolExecutor-0_{unit - 1}"
        writer.event("unit", at_ns=origin_ns, unit=unit, kind=THREAD, thread=pid + unit, name=name)
    job = 0
    for at_ns in range(origin_ns, origin_ns + seconds * S, S // 4):
        opening = {"clock": ACCEPT_CLOCK, "host": "gunicorn.gthread"}
        # Unit 1 computes 60 ms; unit 2 computes 0.2 ms, reads for 20 ms and then waits 5 ms for the GIL.
        heavy, light = job + 1, job + 2
        job += 2
        end_ns, asked_ns = at_ns + 60 * MS, at_ns + 13 * MS
        writer.event("job_open", at_ns=at_ns, job=heavy, unit=1, arrival_ns=at_ns - MS, **opening)
        writer.event("job_name", at_ns=at_ns, job=heavy, route="POST /price")
        writer.event("slice", from_ns=at_ns, to_ns=end_ns, unit=1, job=heavy, cpu_ns=55 * MS)
        for turn_ns in (asked_ns, asked_ns + 25_200 * US):
            writer.event("wait", from_ns=turn_ns, to_ns=turn_ns + 200 * US, unit=1, job=heavy, kind=GIL)
        writer.event("job_close", at_ns=end_ns, job=heavy, status=200)
        writer.event("job_open", at_ns=asked_ns, job=light, unit=2, arrival_ns=asked_ns - MS, **opening)
        writer.event("job_name", at_ns=asked_ns, job=light, route="GET /health")
        read_ns = asked_ns + 200 * US
        ready_ns, again_ns = read_ns + 20 * MS, read_ns + 25 * MS
        writer.event("slice", from_ns=asked_ns, to_ns=read_ns, unit=2, job=light)
        writer.event(
            "block", from_ns=read_ns, to_ns=ready_ns, unit=2, job=light, kind=Kind.SOCKET, flags=EXACT, call="recv"
        )
        writer.event("slice", from_ns=ready_ns, to_ns=again_ns + 200 * US, unit=2, job=light, phase=1)
        writer.event("wait", from_ns=ready_ns, to_ns=again_ns, unit=2, job=light, kind=GIL)
        writer.event("job_close", at_ns=again_ns + 200 * US, job=light, status=200)
        if (at_ns - origin_ns) % S == 0:
            cpu_ns = 62 * MS * job // 2
            writer.event("process", at_ns=at_ns, cpu_ns=cpu_ns, rss_bytes=48_000_000, threads=4, jobs=1)
    return writer.chunk()


def pricing_requests(*, seconds: int, seed: int, origin_ns: int = START_NS) -> list[Request]:
    """Open-loop arrivals: 40 `GET /bikes` a second, 6 `GET /report`, 1 `GET /legacy`, some with a deadline."""
    rng = random.Random(seed)
    requests = []
    for route, per_s in (("GET /bikes", 40), ("GET /report", 6), ("GET /legacy", 1)):
        at_ns = origin_ns
        while (at_ns := at_ns + int(rng.expovariate(per_s) * S)) < origin_ns + seconds * S:
            requests.append(_request(route, at_ns, rng))
    return sorted(requests, key=lambda request: request.arrival_ns)


def _request(route: str, at_ns: int, rng: random.Random) -> Request:
    def about_ns(ns: int) -> int:
        return int(ns * rng.uniform(0.8, 1.2))

    inventory = Upstream("inventory:8080", "GET /stock", about_ns(110 * MS), timeout_ns=125 * MS)
    if route == "GET /bikes":
        steps: tuple[Step, ...] = (Cpu(about_ns(MS)), inventory, Cpu(about_ns(MS)), inventory, Cpu(about_ns(2 * MS)))
        return Request(route, at_ns, steps, deadline_ns=at_ns + 500 * MS)
    if route == "GET /report":
        rows = Upstream("postgresql:5432", "SELECT", about_ns(15 * MS))
        gc_ns = 8 * MS if rng.random() < 0.2 else 0
        steps = (Cpu(about_ns(2 * MS)), rows, Cpu(about_ns(25 * MS), STACK_ROWS), rows)
        return Request(route, at_ns, (*steps, Cpu(about_ns(70 * MS), STACK_REPORT, gc_ns)))
    held = Held("connect", "rates.legacy:21", about_ns(30 * MS), STACK_LEGACY)
    return Request(
        route, at_ns, (Cpu(about_ns(MS)), held, Cpu(about_ns(MS))), status=500 if rng.random() < 0.1 else 200
    )


def pricing(*, processes: int = 2, seconds: int = 10, seed: int = 7) -> bytes:
    """A whole recording: `processes` gevent workers of the pricing service, and one on threads beside them."""
    chunks = []
    for number in range(processes):
        service = GreenService(0xA0 + number, 4001 + number)
        service.run(pricing_requests(seconds=seconds, seed=seed + number))
        chunks.append(service.chunk())
    return b"".join([*chunks, thread_service(0xB0, 4100, seconds=seconds)])


def write_pricing(path: Path, **how: int) -> Path:
    """`pricing()` as a file."""
    path.write_bytes(pricing(**how))
    return path


def slow_offer(*, origin_ns: int = START_NS) -> bytes:
    """One offer waits 110 ms for `routing`, whose reply is not looked at before one receipt of seconds is done."""
    writer = RecordingWriter(0xC0, 5001)
    dated = {"started_ns": origin_ns, "started_unix_ns": 1_700_000_000 * S}
    writer.event("about", at_ns=origin_ns, json=about("gunicorn.gevent", worker=5001, **dated))
    writer.event("mark", at_ns=origin_ns, what="on")
    writer.event("unit", at_ns=origin_ns, unit=2, kind=LOOP, thread=5001, name="Hub")
    for unit in (101, 102):
        writer.event("unit", at_ns=origin_ns, unit=unit, kind=GREENLET, thread=5001, parent=2, name=f"Greenlet-{unit}")
    opening = {"clock": KERNEL_CLOCK, "host": "gunicorn.gevent"}
    asked_ns, ready_ns, again_ns = (origin_ns + ms * MS for ms in (1, 112, 5301))
    offer = {"unit": 101, "job": 1}
    writer.event("job_open", at_ns=origin_ns, arrival_ns=origin_ns, **offer, **opening)
    writer.event("job_name", at_ns=origin_ns, job=1, route="GET /v1/bikes/price")
    trace = {"trace_high": 0x4BF92F3577B34DA6, "trace_low": 0xA3CE929D0E0E4736, "span": 0xF067AA0BA902B7}
    writer.event("traced", at_ns=origin_ns, job=1, **trace)
    writer.event("slice", from_ns=origin_ns, to_ns=asked_ns, **offer, cpu_ns=MS)
    waited = {"from_ns": asked_ns, "ready_ns": ready_ns, "to_ns": again_ns, **offer}
    writer.event("block", **waited, kind=Kind.SOCKET, flags=EXACT, call="recv", peer="routing:80")
    writer.event(
        "call", **waited, deadline_ns=0, upstream="routing:80", operation="GET /routing", outcome=0, own_ns=110 * MS
    )
    writer.event("slice", from_ns=again_ns, to_ns=again_ns + MS, **offer, phase=1, cpu_ns=MS)
    writer.event("job_close", at_ns=again_ns + MS, job=1, status=200)
    heavy = {"unit": 102, "job": 2}
    begin_ns = origin_ns + 20 * MS
    writer.event("job_open", at_ns=begin_ns, arrival_ns=begin_ns, **heavy, **opening)
    writer.event("job_name", at_ns=begin_ns, job=2, route="GET /v1/receipts/month")
    writer.event("slice", from_ns=begin_ns, to_ns=again_ns, **heavy, cpu_ns=again_ns - begin_ns)
    stack = "receipt_month (offers/view.py:30);template (offers/work.py:99)"
    for at_ns in range(begin_ns + 10 * MS, again_ns, 100 * MS):
        writer.event("stack", at_ns=at_ns, **heavy, weight_ns=100 * MS, stack=stack)
    writer.event("job_close", at_ns=again_ns, job=2, status=200)
    return writer.chunk()
