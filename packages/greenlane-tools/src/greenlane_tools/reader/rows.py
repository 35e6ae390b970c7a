"""What a recording says after accounting: rows that reports, plans and tests read. Times are ns, monotonic.

The one declaration of these rows: the native reader gives tuples in this order, which `test_recording.py` checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Process(NamedTuple):
    """One process of the recording."""

    #: Number within the recording: rows name their process by it.
    number: int
    pid: int
    #: Its `About` object; `docs/recording-format.md` lists the fields. Empty if that part of the file is gone.
    about: dict[str, object]
    from_ns: int
    to_ns: int
    #: Events that a full buffer lost, and bytes of a torn last chunk.
    lost_events: int
    torn_bytes: int


class Job(NamedTuple):
    """One job: CPU + I/O + wait + residual = latency, exactly."""

    process: int
    job: int
    route: str
    host: str
    status: int
    #: Which clock `arrival_ns` is of: handler, spawn, accept, kernel, header, enqueue, given.
    clock: str
    arrival_ns: int
    #: 0 = unknown.
    spawn_ns: int
    handler_ns: int
    end_ns: int
    #: 0 = none.
    deadline_ns: int
    cpu_ns: int
    #: By what it blocked on: socket, ssl, dns, select, sleep, process, driver, host.
    io_ns: dict[str, int]
    #: By what it waited for: gil, loop, permit, stopped, accept, parked, lock, pool, queue, os, blocked.
    wait_ns: dict[str, int]
    residual_ns: int
    #: So much of the I/O may have been wait: its reply's moment is known only as a bound.
    uncertain_ns: int
    #: Largest culprits of its wait, (culprit, ns), most first, at most 8.
    culprits: list[tuple[str, int]]
    #: Its trace and its span there, as OpenTelemetry numbers them; 0 = it had none.
    trace_id: int = 0
    span_id: int = 0

    @property
    def latency_ns(self) -> int:
        """From arrival to the answer."""
        return self.end_ns - self.arrival_ns


class Unfinished(NamedTuple):
    """A job in progress when its process ended, or aborted by its server. Only aborted ones have a `Job` too.

    CPU, I/O and wait are up to `last_ns`: what it did after that was not recorded.
    """

    process: int
    job: int
    route: str
    host: str
    arrival_ns: int
    handler_ns: int
    last_ns: int
    cpu_ns: int
    io_ns: dict[str, int]
    wait_ns: dict[str, int]
    #: How long it had been running without a pause at the end; 0 = it was waiting, or blocked.
    running_ns: int
    #: Where it was last seen, as in `Stack`; "" = it was not looked at: nobody waited for it.
    stack: str
    #: What ran kept an event loop's thread: nothing else in that loop could run, no heartbeat either.
    held: bool


class Blame(NamedTuple):
    """How long jobs of one route waited because something else ran."""

    #: A route.
    victim: str
    #: gil, loop, permit, stopped, accept, parked, lock, pool, queue, os, blocked.
    kind: str
    #: A route; or "gc", "os", "loop", "thread NAME" (no job), "native" (held the GIL), "blocked", "unknown"; of
    #: what was parked "limit KEY", "breaker KEY" or "slots".
    culprit: str
    #: The culprit's phase; -1 = not a route.
    phase: int
    ns: int
    #: Waits that it had a part in.
    waits: int
    #: Slices of the culprit that did it, the longest of them, and `ns` by the culprits' slice length: at index i,
    #: slices of at least 2**i us and less than 2**(i+1).
    slices: int
    longest_ns: int
    by_length_ns: list[int]


class Call(NamedTuple):
    """One call of an upstream."""

    process: int
    job: int
    route: str
    upstream: str
    operation: str
    from_ns: int
    #: The reply was there; 0 = unknown.
    ready_ns: int
    to_ns: int
    #: 0 = none.
    deadline_ns: int
    #: ok, error, timeout.
    outcome: str
    #: So much of the time until `ready_ns` its thread, greenlet or task could have run, and did not: between connecting
    #: and sending, or before a second read.
    waited_ns: int = 0
    #: How long it took by the upstream's own clock, as its reply says; 0 = it does not.
    own_ns: int = 0

    @property
    def wire_ns(self) -> int:
        """On the wire: until the reply was there, less what the process itself was late meanwhile."""
        return max(0, self.ready_ns - self.from_ns - self.waited_ns)

    @property
    def late_ns(self) -> int:
        """What the process was late: before the reply was there, and from then until the code had it."""
        return self.to_ns - self.from_ns - self.wire_ns


class Held(NamedTuple):
    """A call that blocked an event loop: all its jobs waited although the CPU was idle. Or one that kept a thread."""

    route: str
    call: str
    stack: str
    calls: int
    ns: int
    longest_ns: int


class Stack(NamedTuple):
    """Where a culprit was while a job waited."""

    culprit: str
    #: Outermost first, `function (file:line)`, a coroutine's after `async `, separated by `;`.
    stack: str
    ns: int
    #: How often it was seen so: what `ns` stands on.
    looks: int = 1
    #: Of them, at the end of one call of a C function that had kept the GIL for over 25 ms, made by the innermost line;
    #: and the longest such call.
    calls: int = 0
    longest_call_ns: int = 0


class Own(NamedTuple):
    """Where one job was while it computed: samples of jobs that compute for over 10 ms at a time, five a second."""

    process: int
    job: int
    route: str
    #: As in `Stack`.
    stack: str
    #: The job's CPU, shared out among its looks.
    cpu_ns: int
    looks: int


class Look(NamedTuple):
    """How often one job was looked at while it computed: did it have the GIL?"""

    process: int
    job: int
    looks: int
    #: Time that the samples represent, and of it without the GIL.
    ns: int
    free_ns: int


class Turns(NamedTuple):
    """How heavy phases of one route took turns for CPU permits; each number counts phases, but `stopped`."""

    route: str
    #: They had a permit.
    taken: int
    #: Beside a holder whose phase is at least twice as long; for 400 ms of CPU, then beside others.
    express: int
    shared: int
    #: They were believed light, and used the CPU of a heavy one.
    charged: int
    #: Times that others went before a phase that had a permit; only in recordings of earlier versions.
    stopped: int
    #: They ran, at least at first, without a permit: a lock was held, the wait was too long, or the mode changed.
    skipped: int


class ResourceVictim(NamedTuple):
    """Jobs of one route that waited for a place of a resource."""

    #: A route; "thread NAME" and the like without a job, "unknown".
    route: str
    #: The application's frame that asked, as one of a `Stack`; of threads the function that was to run. "" = unknown.
    line: str
    waits: int
    ns: int
    longest_ns: int
    #: Waits that ended without a place: by a time-out, or cancelled.
    gave_up: int


class ResourceHolder(NamedTuple):
    """Those who held places of a resource while others waited for one."""

    route: str
    #: The application's frame that took the place; of threads the function that ran, at its first line.
    line: str
    holds: int
    #: Their part of the waits: each moment of a wait is shared among those who held a place then.
    ns: int
    #: How long they held places, and the longest of it.
    held_ns: int
    longest_ns: int
    #: What they did meanwhile, most first: (state, what, ns). State: cpu, io or wait. What: the kind of wait, operation
    #: and upstream of a call, or what blocked; "" for cpu.
    meanwhile: list[tuple[str, str, int]]


class Resource(NamedTuple):
    """Something with places that jobs waited for; those of one name are one."""

    #: connections, threads, semaphore, lock, processes.
    kind: str
    name: str
    #: Places; 0 = not known, or no limit.
    capacity: int
    waits: int
    ns: int
    longest_ns: int
    gave_up: int
    #: Most first.
    victims: list[ResourceVictim]
    holders: list[ResourceHolder]


class Sample(NamedTuple):
    """One process in one second."""

    process: int
    at_ns: int
    cpu_ns: int
    os_wait_ns: int
    rss_bytes: int
    threads: int
    jobs: int
    lag_ns: int
    #: What a loop of fixed work took, by the CPU clock; 0 = not known.
    loop_ns: int
    #: From a release of the GIL until the thread that waited for it ran, and how often: both since recording began.
    waking_ns: int = 0
    hand_overs: int = 0


class Cost(NamedTuple):
    """The cost of recording for one process from its start to `at_ns`, measured by that process."""

    process: int
    at_ns: int
    #: Events recorded, and what a thousand of them took at the start, in a loop.
    events: int
    thousand_ns: int
    #: CPU of the threads that write and that look at stacks.
    writer_ns: int
    sampler_ns: int

    @property
    def hooks_ns(self) -> int:
        """Estimate what the hooks took in the program's own threads: that many events at that price."""
        return self.events * self.thousand_ns // 1000


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of one job's life, for the waterfall. Segments of a job may overlap: children run beside each other."""

    #: cpu, io, wait.
    state: str
    #: The I/O's or wait's kind; empty for cpu.
    kind: str
    from_ns: int
    to_ns: int
    unit: str
    #: What was called, or what was running instead.
    label: str
