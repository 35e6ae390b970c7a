"""Every metric's name, kind, unit and meaning. Exporters render what stands here and nothing else.

Names follow the Prometheus convention: `greenlane_` first, base units (seconds), `_total` on counters. A name, once
released, keeps its meaning; what a counter of the process counts is said in its `help`.

`COUNTERS` maps the keys of a process's counters (`Running.counters()`, and its host's) to metrics: nanoseconds become
seconds, and keys that are reasons of one event become one metric with the label `reason`. A key without a metric is not
exported; tests hold that there is none.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

__all__ = ["COUNTERS", "LEARNED", "PROCESS", "Counter", "Kind", "Learned", "Metric"]


class Kind(enum.Enum):
    """What a metric does over time; the values are those of the text exposition format."""

    COUNTER = "counter"
    GAUGE = "gauge"


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
        """The weight was set by somebody, not learned."""

    @property
    def released_frac(self) -> float:
        """Share of its CPU time that it spent with the GIL released."""


def _counter(name: str, meaning: str, unit: str = "") -> Metric:
    return Metric(f"greenlane_{name}_total", Kind.COUNTER, unit, meaning)


def _gauge(name: str, meaning: str, unit: str = "") -> Metric:
    return Metric(f"greenlane_{name}", Kind.GAUGE, unit, meaning)


_LENT = _counter("permits_lent", "Permits lent on while their holder did not need the GIL or ran far too long.")
_SKIPPED = _counter("permits_skipped", "Phases that ran without a permit although one might have been due.")
_SLOW = _counter("client_timeouts", "Clients that sent a part of their request too slowly.")

COUNTERS: Final[Mapping[str, Counter]] = {
    "jobs": Counter(_counter("jobs", "Jobs opened.")),
    "jobs_late": Counter(_counter("jobs_late", "Jobs that ended after their deadline.")),
    "late_cpu_ns": Counter(
        _counter("late_cpu_seconds", "CPU time that jobs spent after their deadline: wasted.", "seconds"), 1e-9
    ),
    "phases": Counter(_counter("phases", "CPU phases ended.")),
    "granted": Counter(_counter("permits_granted", "Permits taken without waiting.")),
    "waited": Counter(_counter("permit_waits", "Phases that waited for a permit, whatever came of it.")),
    "waited_granted": Counter(_counter("permit_waits_granted", "Waits that ended with a permit.")),
    "released": Counter(_counter("permits_released", "Permits given back.")),
    "lent_still": Counter(_LENT, labels={"reason": "still"}),
    "lent_released": Counter(_LENT, labels={"reason": "released"}),
    "lent_overrun": Counter(_LENT, labels={"reason": "overrun"}),
    "skipped_timeout": Counter(_SKIPPED, labels={"reason": "timeout"}),
    "skipped_lock": Counter(_SKIPPED, labels={"reason": "lock"}),
    "skipped_unknown": Counter(_SKIPPED, labels={"reason": "unknown"}),
    "skipped_switched": Counter(_SKIPPED, labels={"reason": "switched"}),
    "would_wait": Counter(_counter("permit_waits_predicted", "In observe mode: heavy phases that would have waited.")),
    "wait_ns": Counter(_counter("permit_wait_seconds", "Time spent waiting for permits.", "seconds"), 1e-9),
    "hold_ns": Counter(_counter("permit_hold_seconds", "Time permits were held.", "seconds"), 1e-9),
    "interval_changes": Counter(_counter("interval_changes", "Changes of the interpreter's switch interval.")),
    "looks": Counter(_counter("gil_looks", "Looks at the GIL by waiters.")),
    "routes_refused": Counter(_counter("routes_refused", "Routes beyond max_routes, filed together.")),
    # Of the gunicorn worker.
    "refused": Counter(_counter("requests_refused", "Requests over the limit, answered 503 at once.")),
    "deadline_answers": Counter(_counter("deadline_answers", "Requests answered 504 at their deadline.")),
    "head_timeouts": Counter(_SLOW, labels={"part": "head"}),
    "body_timeouts": Counter(_SLOW, labels={"part": "body"}),
    "accepts_failed": Counter(_counter("accepts_failed", "Connections that the kernel could not hand over.")),
}

# Of the process as it is now.
PROCESS: Final[Mapping[str, Metric]] = {
    "mode": _gauge("mode", "1 for the mode that is in force, by the label mode."),
    "running": _gauge("heavy_phases_running", "Heavy phases that run with a permit."),
    "waiting": _gauge("heavy_phases_waiting", "Heavy phases that wait for a permit."),
}

# One sample a (route, phase), by the labels route and phase.
LEARNED: Final[Mapping[str, Metric]] = {
    "samples": _gauge("learned_samples", "Measured bursts of the phase."),
    "expected": _gauge("learned_burst_seconds", "Expected CPU burst of the phase.", "seconds"),
    "heavy": _gauge("learned_heavy", "1 = the phase needs a permit, 0 = it does not; absent while unknown."),
    "pinned": _gauge("learned_pinned", "1 = the weight was set by somebody, 0 = learned."),
    "released": _gauge("learned_released_ratio", "Share of the phase's CPU time with the GIL released.", "ratio"),
}
