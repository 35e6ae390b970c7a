"""What a latency consists of: CPU, I/O, wait by kind, residual. The order is that of every bar and table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from greenlane_tools.reader.rows import Job

__all__ = ["KINDS", "WAITS", "mean_parts", "named", "parts", "told", "wait_ns"]

WAITS: Final = ("loop", "gil", "permit", "accept", "parked", "pool", "lock", "os")
KINDS: Final = ("cpu", "io", *WAITS, "residual")

_NAMES: Final = {
    "cpu": "CPU",
    "io": "I/O",
    "loop": "wait: loop",
    "gil": "wait: GIL",
    "permit": "wait: permit",
    "accept": "wait: accept",
    "parked": "wait: parked",
    "pool": "wait: pool",
    "lock": "wait: lock",
    "os": "wait: OS",
    "residual": "residual",
}


_WAITING: Final = {
    "loop": "waiting for the loop",
    "gil": "waiting for the GIL",
    "permit": "waiting for a permit",
    "accept": "waiting to be accepted",
    "parked": "parked",
    "pool": "waiting for a place in a pool",
    "lock": "waiting for a lock",
    "os": "waiting for a core",
}


def told(kind: str) -> str:
    """How a kind reads in a sentence."""
    return _WAITING.get(kind) or named(kind)


def named(kind: str) -> str:
    """How a kind reads in legends and tables."""
    return _NAMES.get(kind, f"wait: {kind}")


def wait_ns(job: Job) -> int:
    """All of a job's wait."""
    return sum(job.wait_ns.values())


def parts(job: Job) -> dict[str, int]:
    """ns by kind; their sum is the job's latency, exactly."""
    found = dict.fromkeys(KINDS, 0)
    found["cpu"] = job.cpu_ns
    found["io"] = sum(job.io_ns.values())
    for kind, ns in job.wait_ns.items():
        found[kind] = found.get(kind, 0) + ns
    found["residual"] = job.residual_ns
    return found


def mean_parts(jobs: Sequence[Job]) -> dict[str, float]:
    """Mean ns by kind over jobs; zeros without any."""
    total: dict[str, float] = dict.fromkeys(KINDS, 0.0)
    for job in jobs:
        total["cpu"] += job.cpu_ns
        for ns in job.io_ns.values():
            total["io"] += ns
        for kind, ns in job.wait_ns.items():
            total[kind] = total.get(kind, 0.0) + ns
        total["residual"] += job.residual_ns
    return {kind: ns / max(1, len(jobs)) for kind, ns in total.items()}


def sum_by_kind(found: Iterable[dict[str, int]]) -> dict[str, int]:
    """Sums by key, the largest first."""
    total: dict[str, int] = {}
    for each in found:
        for kind, ns in each.items():
            total[kind] = total.get(kind, 0) + ns
    return dict(sorted(total.items(), key=lambda item: -item[1]))
