"""Every metric's name, kind, unit and meaning. Exporters render what stands here and nothing else.

Names follow the Prometheus convention: `greenlane_` first, base units (seconds), `_total` on counters. A name, once
released, keeps its meaning; a counter's `help` says what it counts.

`COUNTERS` maps the keys of a process's counters (`Running.counters()`, and its host's) to metrics: nanoseconds become
seconds, and keys that are reasons of one event become one metric with the label `reason`. A key without a metric is not
exported; tests hold that there is none.

`TURNS` are those of each route. `RECORDER` and `ROUTES` are there while the process records. They are coarse sums of
the recorder's writer, at most 0.25 s old; what a recording says of a job is exact. docs/metrics.md lists all names and
says which to scale by.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

__all__ = [
    # what a process counts
    "COUNTERS",
    "LEARNED",
    "METER",
    "PROCESS",
    "RECORDER",
    "ROUTES",
    "SERVE",
    "TURNS",
    "UPSTREAMS",
    # how it is written
    "Counter",
    "Kind",
    "Learned",
    "Metric",
    "Recorder",
    # attributes of spans
    "ATTRIBUTES",
    # histograms
    "Histogram",
    "lag_histogram",
    "latency_histogram",
    "most_used",
    "quantile_s",
]


class Kind(enum.Enum):
    """What a metric does over time; the values are those of the text exposition format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Metric:
    """One exported name."""

    name: str
    kind: Kind
    # "seconds", "ratio" (0 to 1), or "" for a number of things.
    unit: str
    help: str


@dataclass(frozen=True)
class Counter:
    """How a key of the process's counters becomes a sample of a metric."""

    metric: Metric
    # What one of the counter is in units of the metric; 1e-9 for nanoseconds.
    scale: float = 1
    labels: Mapping[str, str] = field(default_factory=dict)


class Learned(Protocol):
    """What a process knows of one (route, phase)."""

    @property
    def route(self) -> str:
        """As the framework names it: "GET /bikes/<id>"."""

    @property
    def phase(self) -> int:
        """Index in the job, from 0."""

    @property
    def samples(self) -> int:
        """How often it was measured, forgotten samples included."""

    @property
    def expected_ms(self) -> float:
        """Expected CPU burst."""

    @property
    def weight(self) -> str:
        """`heavy`, `light`, `native` (long, but without the GIL: needs no permit) or `unknown`."""

    @property
    def pinned(self) -> bool:
        """The weight is pinned, not learned."""

    @property
    def released_frac(self) -> float:
        """Share of its CPU time that it spent with the GIL released."""


class Recorder(Protocol):
    """What the native recorder tells of this process; see `greenlane._native.Recorder`."""

    def stats(self) -> Mapping[str, Any]:
        """Its counters."""

    def live(self) -> Sequence[tuple[str, int, int, int, int, int, Sequence[int], int]]:
        """(route, jobs, latency, CPU, I/O, wait in ns, jobs by latency)."""


@dataclass(frozen=True)
class Histogram:
    """How many observations were at most so large."""

    # (upper bound in seconds, how many were at most that), bounds ascending; the last one is infinite and counts all.
    buckets: tuple[tuple[float, int], ...]
    sum_s: float

    @property
    def count(self) -> int:
        """All observations."""
        return self.buckets[-1][1]


def _counter(name: str, meaning: str, unit: str = "") -> Metric:
    return Metric(f"greenlane_{name}_total", Kind.COUNTER, unit, meaning)


def _gauge(name: str, meaning: str, unit: str = "") -> Metric:
    return Metric(f"greenlane_{name}", Kind.GAUGE, unit, meaning)


def _histogram(name: str, meaning: str, unit: str) -> Metric:
    return Metric(f"greenlane_{name}", Kind.HISTOGRAM, unit, meaning)


_LENT = _counter("permits_lent", "Permits lent while their holder did not need the GIL, or ran far too long.")
_SKIPPED = _counter("permits_skipped", "Phases that ran without a permit although they may have needed one.")
_SLOW = _counter("client_timeouts", "Clients that sent a part of their request too slowly.")

_ORDERS = _counter("orders_ended", "Orders that ended, by outcome.")
_LIMITS = _counter("orders_limits", "Runs that reached a time limit.")
_PLACED = _counter("placed_calls", "Calls of placed functions, by where they ran.")

COUNTERS: Final[Mapping[str, Counter]] = {
    "jobs": Counter(_counter("jobs", "Jobs opened.")),
    "jobs_late": Counter(_counter("jobs_late", "Jobs that ended after their deadline.")),
    "late_cpu_ns": Counter(
        _counter("late_cpu_seconds", "CPU time used by jobs after their deadline.", "seconds"), 1e-9
    ),
    "phases": Counter(_counter("phases", "CPU phases ended.")),
    "granted": Counter(_counter("permits_granted", "Permits granted without a wait.")),
    "waited": Counter(_counter("permit_waits", "Phases that waited for a permit, with or without getting it.")),
    "waited_granted": Counter(_counter("permit_waits_granted", "Waits that ended with a permit.")),
    "released": Counter(_counter("permits_released", "Permits released.")),
    "lent_still": Counter(_LENT, labels={"reason": "still"}),
    "lent_released": Counter(_LENT, labels={"reason": "released"}),
    "lent_overrun": Counter(_LENT, labels={"reason": "overrun"}),
    "charged": Counter(_counter("phases_charged", "Phases expected to be light that used the CPU of a heavy one.")),
    "skipped_timeout": Counter(_SKIPPED, labels={"reason": "timeout"}),
    "skipped_lock": Counter(_SKIPPED, labels={"reason": "lock"}),
    "skipped_unknown": Counter(_SKIPPED, labels={"reason": "unknown"}),
    "skipped_switched": Counter(_SKIPPED, labels={"reason": "switched"}),
    "would_wait": Counter(_counter("permit_waits_predicted", "In observe mode: heavy phases that would have waited.")),
    "wait_ns": Counter(_counter("permit_wait_seconds", "Time spent waiting for permits.", "seconds"), 1e-9),
    "hold_ns": Counter(_counter("permit_hold_seconds", "Time permits were held.", "seconds"), 1e-9),
    "interval_changes": Counter(_counter("interval_changes", "Changes of the interpreter's switch interval.")),
    "looks": Counter(_counter("gil_looks", "Checks by waiters whether the GIL is free.")),
    "routes_refused": Counter(_counter("routes_refused", "Routes beyond 512, counted as one.")),
    # Of placed functions.
    "placed_inline": Counter(_PLACED, labels={"placement": "inline"}),
    "placed_thread": Counter(_PLACED, labels={"placement": "thread"}),
    "placed_pool": Counter(_PLACED, labels={"placement": "pool"}),
    "placed_process": Counter(_PLACED, labels={"placement": "process"}),
    "placed_cluster": Counter(_PLACED, labels={"placement": "cluster"}),
    "placed_refused": Counter(_counter("placed_refused", "Placed calls refused because the queue was full.")),
    "placed_cancelled": Counter(_counter("placed_cancelled", "Placed calls whose callers left before their end.")),
    "placed_wait_ns": Counter(
        _counter("placed_wait_seconds", "Time placed calls waited for the native thread.", "seconds"), 1e-9
    ),
    # Of the gunicorn worker.
    "refused": Counter(_counter("requests_refused", "Requests over the limit, refused with 503.")),
    "refused_late": Counter(_counter("requests_refused_late", "Requests refused because they would end too late.")),
    "clients_gone": Counter(_counter("clients_gone", "Requests whose clients left while they ran.")),
    "unstarted": Counter(_counter("requests_unstarted", "Requests whose clients left before they were started.")),
    "deadline_answers": Counter(_counter("deadline_answers", "Requests answered 504 at their deadline.")),
    "head_timeouts": Counter(_SLOW, labels={"part": "head"}),
    "body_timeouts": Counter(_SLOW, labels={"part": "body"}),
    # Of the worker of orders.
    "orders_received": Counter(_counter("orders_received", "Messages taken from the broker.")),
    "orders_started": Counter(_counter("orders_started", "Runs of orders; an order that is retried has several.")),
    "orders_done": Counter(_ORDERS, labels={"end": "done"}),
    "orders_failed": Counter(_ORDERS, labels={"end": "failed"}),
    "orders_dead": Counter(_ORDERS, labels={"end": "dead"}),
    "orders_revoked": Counter(_ORDERS, labels={"end": "revoked"}),
    "orders_retried": Counter(_counter("orders_retried", "Runs after which the order was retried.")),
    "orders_retries_held": Counter(_counter("orders_retries_held", "Retries that waited for the retry budget.")),
    "orders_returned": Counter(
        _counter("orders_returned", "Orders returned to the broker: no room, due much later, or of an unknown task.")
    ),
    "orders_counted": Counter(
        _counter("orders_counted", "Redelivered messages that were published again with their delivery count.")
    ),
    "orders_given_back": Counter(_counter("orders_given_back", "Unstarted orders returned when the worker ended.")),
    "orders_acked_again": Counter(
        _counter("orders_acked_again", "Redelivered messages of finished orders, acknowledged without a run.")
    ),
    "orders_soft_limits": Counter(_LIMITS, labels={"limit": "soft"}),
    "orders_hard_limits": Counter(_LIMITS, labels={"limit": "hard"}),
    "orders_keyless": Counter(_counter("orders_keyless", "Orders without the key that task_key names.")),
    "orders_acked": Counter(_counter("orders_acked", "Acknowledgements sent to the broker.")),
    "orders_stale": Counter(_counter("orders_stale", "Acknowledgements dropped because their connection was lost.")),
    "calls_repeated": Counter(
        _counter("calls_repeated", "Calls repeated although the end of the last one was unknown.")
    ),
    "calls_saved": Counter(_counter("calls_saved", "Calls not made: the store or the upstream had the result.")),
    "calls_asked": Counter(_counter("calls_asked", "Questions to the other side how an attempt had ended.")),
    "shares_asked": Counter(
        _counter("shares_asked", "Questions to the store about shares of limits over all workers.")
    ),
    "store_waits": Counter(_counter("store_waits", "Orders that waited for the store, or for another's attempt.")),
    "accepts_failed": Counter(_counter("accepts_failed", "Connections that the kernel could not hand over.")),
}

# Of the process as it is now.
PROCESS: Final[Mapping[str, Metric]] = {
    "mode": _gauge("mode", "1 for the mode that is in force, by the label mode."),
    "running": _gauge("heavy_phases_running", "Heavy phases that run with a permit."),
    "waiting": _gauge("heavy_phases_waiting", "Heavy phases that wait for a permit."),
}

# By the label route, of routes whose phases were heavy. A route pays `waited_ns` and gains `others_waited_ns`.
TURNS: Final[Mapping[str, Counter]] = {
    "turns": Counter(_counter("route_turns", "Permits granted to phases of the route.")),
    "waited": Counter(_counter("route_waits", "Phases of the route that waited for a permit.")),
    "express": Counter(
        _counter("route_turns_express", "Turns beside the holder of a permit whose phase is at least twice as long.")
    ),
    "shared": Counter(
        _counter("route_turns_shared", "Turns that used their share of CPU (400 ms) and then computed beside others.")
    ),
    "charged": Counter(_counter("route_charged", "Phases expected to be light that used the CPU of a heavy one.")),
    "skipped": Counter(
        _counter("route_skipped", "Heavy phases that ran without a permit: a lock, a time-out, the mode.")
    ),
    "waited_ns": Counter(
        _counter("route_wait_seconds", "What the route pays: time that its phases waited.", "seconds"),
        1e-9,
    ),
    "others_waited_ns": Counter(
        _counter(
            "route_others_wait_seconds", "What it gains: time that others waited while it had a permit.", "seconds"
        ),
        1e-9,
    ),
}

# Of a worker of orders as it is now, by the label key.
UPSTREAMS: Final[Mapping[str, Metric]] = {
    "running": _gauge("upstream_running", "Calls of the upstream key in progress."),
    "parked": _gauge("upstream_parked", "Orders that wait for the upstream key, without a thread."),
    "limit": _gauge("upstream_limit", "Calls of the upstream key that may be in progress."),
    "open": _gauge("upstream_open", "1 = the breaker of the upstream key is open or half-open, 0 = closed."),
    "oldest_s": _gauge("upstream_oldest_seconds", "How long its oldest parked order has waited.", "seconds"),
}

# One sample a (route, phase), by the labels route and phase.
LEARNED: Final[Mapping[str, Metric]] = {
    "samples": _gauge("learned_samples", "Measured bursts of the phase."),
    "expected": _gauge("learned_burst_seconds", "Expected CPU burst of the phase.", "seconds"),
    "heavy": _gauge("learned_heavy", "1 = the phase needs a permit, 0 = it does not; absent while unknown."),
    "pinned": _gauge("learned_pinned", "1 = the weight is pinned, 0 = learned."),
    # With the label placement: inline, thread, process or cluster.
    "placement": _gauge("learned_placement", "1 for where the calls of a placed function run."),
    "released": _gauge("learned_released_ratio", "Share of the phase's CPU time with the GIL released.", "ratio"),
}

# Of the recorder, while there is one.
RECORDER: Final[Mapping[str, Metric]] = {
    "on": _gauge("recording", "1 = events are being recorded, 0 = switched off."),
    "lag": _histogram(
        "lag_seconds", "How late a unit (thread, greenlet, task) ran after it could have: GIL and loop.", "seconds"
    ),
    "busy": _counter("busy_seconds", "CPU time of the threads that run jobs; its rate is the busy share.", "seconds"),
    "in_progress": _gauge("jobs_in_progress", "Jobs that have arrived and are not answered yet."),
    "events": _counter("recorder_events", "Events recorded."),
    "lost": _counter("recorder_events_lost", "Events that a full buffer lost."),
    "written": _counter("recorder_written_bytes", "Bytes written to the recording's files."),
}

# By the label route; at most 100 routes, further ones are "(other)".
ROUTES: Final[Mapping[str, Metric]] = {
    "latency": _histogram("job_latency_seconds", "From a job's arrival to its answer.", "seconds"),
    # By the label part, too: cpu, io, wait.
    "time": _counter("job_time_seconds", "Where the jobs' time went, by part: cpu, io or wait.", "seconds"),
}

# Of `greenlane serve`: by the labels group, lane, worker and pid, as each says.
SERVE: Final[Mapping[str, Metric]] = {
    "workers": _gauge("serve_workers", "Workers, by the labels group and state."),
    "at_once": _gauge("serve_at_once", "Concurrency limit of each worker of the group; the label by says why."),
    "places": _gauge("serve_places", "Concurrency limit of the serving workers of the group, together."),
    "in_progress": _gauge("serve_requests_in_progress", "Requests in the workers of the group."),
    "waiting": _gauge("serve_requests_waiting", "Requests in the queue of the group."),
    "queue": _gauge("serve_queue_mean_seconds", "Mean wait of the group's last 1024 requests in its queue.", "seconds"),
    "requests": _counter("serve_requests", "Requests sent to the workers of the group since the front started."),
    "retries": _counter("serve_retries", "Requests that were sent again because their worker had died."),
    "answers": _counter("serve_answers", "Answers of the group, by the first digit of their status in the label code."),
    "lane_places": _gauge("serve_lane_places", "Concurrency limit of the lane."),
    "lane_in_progress": _gauge("serve_lane_requests_in_progress", "Requests of the lane past its gate."),
    "lane_waiting": _gauge("serve_lane_requests_waiting", "Requests of the lane before its gate."),
    "worker_in_progress": _gauge("serve_worker_requests_in_progress", "Requests that the worker has."),
    "log_lost": _counter("serve_log_lines_lost", "Lines of the access log lost because its reader was too slow."),
    "route_cpu": _gauge("serve_route_cpu_seconds", "Mean CPU of a request of a route sent to a lane live.", "seconds"),
}

# Further values for a meter (OpenTelemetry), since its histograms must be fed one job at a time.
METER: Final[Mapping[str, Metric]] = {
    "job_time": _histogram(
        "job_part_seconds",
        "A job's time by part (cpu, io, wait), from its server span's begin to its end.",
        "seconds",
    ),
    "lag_p99": _gauge("lag_p99_seconds", "The lag's 99th percentile since the last collection.", "seconds"),
    "busy": _gauge("busy_ratio", "CPU time of the threads that run jobs, by time since the last collection.", "ratio"),
}

# Attributes of a server's or consumer's span (OpenTelemetry): what its unit did from its begin to its end.
ATTRIBUTES: Final[Mapping[str, str]] = {
    "greenlane.cpu_ms": "It computed, ms.",
    "greenlane.io_ms": "It was blocked on I/O, ms.",
    "greenlane.wait_ms": "It could have run and did not, or waited for a lock or pool: the sum of the following, ms.",
    "greenlane.wait.gil_ms": "Waiting for the GIL, ms.",
    "greenlane.wait.loop_ms": "Ready, while its event loop or hub ran something else, ms.",
    "greenlane.wait.permit_ms": "Waiting for a CPU permit, ms.",
    "greenlane.wait.lock_ms": "Waiting for a lock, queue or future, ms.",
    "greenlane.wait.pool_ms": "Waiting for a free connection of a pool, ms.",
}

#: More routes than these are one row: a scrape must stay small whatever an application calls its routes. Arbitrary.
_MOST_ROUTES: Final = 100
_OTHER: Final = "(other)"
#: Bounds of latency are powers of two, 1.024 ms to 33.6 s: exponents of 2 us.
_LATENCY_EXPONENTS: Final = range(10, 26)
#: The native histogram's buckets a power of two.
_LATENCY_STEPS: Final = 4
#: Bounds of lag likewise, 64 us to 8.4 s.
_LAG_EXPONENTS: Final = range(6, 24)

LiveRow = tuple[str, int, int, int, int, int, Sequence[int], int]


def latency_histogram(by_latency: Sequence[int], sum_ns: int) -> Histogram:
    """Give the histogram of `Recorder.live`'s jobs by latency: index i counts jobs of up to 2**(i/4) us."""
    bounds = ((exponent, exponent * _LATENCY_STEPS + 1) for exponent in _LATENCY_EXPONENTS)
    return _of(by_latency, bounds, sum_ns)


def lag_histogram(by_lag: Sequence[int], sum_ns: int) -> Histogram:
    """Give the histogram of `Recorder.stats`'s `by_lag`: index i counts those below 2**i us."""
    return _of(by_lag, ((exponent, exponent + 1) for exponent in _LAG_EXPONENTS), sum_ns)


def quantile_s(histogram: Histogram, frac: float) -> float:
    """Give the upper bound of the bucket that holds the quantile, in seconds; 0 without observations.

    Beyond the last finite bound it is that bound.
    """
    wanted = frac * histogram.count
    finite = [bound_s for bound_s, _ in histogram.buckets if math.isfinite(bound_s)]
    reached = (bound_s for bound_s, count in histogram.buckets if histogram.count and count >= wanted)
    return min(next(reached, 0.0), finite[-1])


def most_used(rows: Sequence[LiveRow]) -> list[LiveRow]:
    """Give `Recorder.live`'s rows with all but the 100 routes of most jobs added up as "(other)"."""
    rows = sorted(rows, key=lambda row: -row[1])
    kept, others = list(rows[:_MOST_ROUTES]), rows[_MOST_ROUTES:]
    if others:
        sums = [sum(column) for column in zip(*(row[1:6] for row in others), strict=True)]
        counts = [sum(column) for column in zip(*(row[6] for row in others), strict=True)]
        failed = sum(row[7] for row in others)
        kept.append((_OTHER, sums[0], sums[1], sums[2], sums[3], sums[4], counts, failed))
    return kept


def _of(counts: Sequence[int], bounds: Iterable[tuple[int, int]], sum_ns: int) -> Histogram:
    buckets = [(2**exponent / 1e6, sum(counts[:end])) for exponent, end in bounds]
    return Histogram((*buckets, (math.inf, sum(counts))), sum_ns / 1e9)
