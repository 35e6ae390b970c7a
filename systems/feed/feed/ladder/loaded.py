"""Open-loop load on one subject."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from greenlane_tools.lab.interruption import checkpoint
from greenlane_tools.lab.load.generate import generate
from greenlane_tools.lab.load.plan import Plan

from . import questions
from .subject import Subject, between

Json = dict[str, Any]
Told = Callable[[str], None]
DEADLINE_MS: Final = 500.0


def loaded(subject: Subject, users: Sequence[int], per_s: float, seconds: float, seed: str, told: Told) -> Json:
    """A cell, or one repetition of it.

    Returns:
        What `sent` does, and per_s, seconds.
    """
    label = f"{subject.variant} at {per_s:.3g}/s"
    found = sent(subject, questions.plan(subject.address, users, per_s, seconds, seed), told, label)
    return {**found, "per_s": per_s, "planned_s": seconds}


def sent(subject: Subject, plan: Plan, told: Told, label: str) -> Json:
    """Sends a plan and waits for its answers.

    Returns:
        latency_ms from the due instant, by request; errors; done_s: from the run's start to the last answer; `usage`
        (subject.Usage) over all the run; pss_mb at its end; warning of the generator.
    """

    def progress(sent: int, over: int) -> None:
        checkpoint()
        told(f"{label}: {sent} sent, {over} answered")

    before = subject.look()
    generated = generate(plan, progress=progress)
    after = subject.look()
    samples = generated.samples
    good = (samples.status >= 200) & (samples.status < 300)
    return {
        "latency_ms": [round(one, 3) for one in samples.latency_ms()[good].tolist()],
        "scheduled_ms": [round(one / 1e6, 3) for one in samples.scheduled_ns[good].tolist()],
        "errors": int((~good).sum()),
        "done_s": float(samples.done_ns.max()) / 1e9,
        "usage": between(before, after).plain(),
        "pss_mb": subject.pss_mb(),
        "processes": len(subject.pids()),
        "warning": generated.warning(),
    }
