"""Runs made by hand, for tests of what is computed from them."""

from __future__ import annotations

from collections.abc import Iterable

from greenlane.demo.rows import Run
from greenlane.demo.samples import RunKey, Sample


def sample(latency_ms: float, endpoint: str = "bikes", at_s: float = 0.0, status: int = 200) -> Sample:
    """One request that was due at `at_s`, sent on time, and took `latency_ms`."""
    due_ns = int(at_s * 1e9)
    return Sample(endpoint, due_ns, due_ns, due_ns + int(latency_ms * 1e6), status)


def run(
    samples: Iterable[Sample],
    contender: str = "greenlane",
    utilisation_frac: float = 0.9,
    repetition: int = 0,
    seconds: float = 10.0,
    cpu_ms: float = 5_000.0,
) -> Run:
    """One repetition with these samples."""
    key = RunKey(contender, "light10", utilisation_frac, repetition)
    return Run(key, seconds, list(samples), cpu_ms, seconds, 50.0)
