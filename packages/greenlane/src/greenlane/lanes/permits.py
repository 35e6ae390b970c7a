"""CPU permits of this process: the native permits under the project's rules, and what they have learned.

The waiting, waking and watching are native (`crates/permits/src/gate/`): a waiter that polls its holder must
not need the GIL for that. A forked child has permits of its own (`forks.rs`).
"""

from __future__ import annotations

import dataclasses
from typing import Final

from greenlane._native import Permits
from greenlane.errors import DeadlineExceeded
from greenlane.policy.permits import PermitRule
from greenlane.settings import Settings

__all__ = ["NS_PER_MS", "LearnedRow", "Permits", "learned_rows", "make_permits"]

NS_PER_MS: Final = 1_000_000


@dataclasses.dataclass(frozen=True)
class LearnedRow:
    """One phase of a route, as people read it."""

    route: str
    #: Its number, in the order in which this process has met the route's phases.
    phase: int
    samples: int
    #: Decayed mean CPU burst.
    expected_ms: float
    #: "heavy", "light", "unknown" (too few samples) or "native" (heavy, but without the GIL).
    weight: str
    #: Whether the owner said so, rather than measurement.
    pinned: bool
    #: Share of looks at the GIL that found it free while this phase computed; 0 without looks.
    released_frac: float
    #: Of a function under `@placed`: where its calls run, and why, in words. "" = it is none.
    placement: str = ""
    reason: str = ""


def make_permits(settings: Settings, *, mode: str) -> Permits:
    """Make the permits of a process.

    Args:
        settings: the rules.
        mode: "on", "observe" or "off" for this process; a canary's may differ from `settings.mode`.
    """
    late_error = DeadlineExceeded if settings.deadline_cancel else None
    return Permits(**vars(PermitRule.of(settings)), mode=mode, late_error=late_error)


def learned_rows(permits: Permits) -> list[LearnedRow]:
    """Give what is known of each (route, phase)."""
    return [
        LearnedRow(
            route=route,
            phase=phase,
            samples=samples,
            expected_ms=mean_ns / NS_PER_MS,
            weight=weight,
            pinned=pin != "auto",
            released_frac=free / looks if looks else 0.0,
        )
        for route, pin, rows in permits.learned()
        for phase, mean_ns, samples, looks, free, weight in rows
        if samples  # a row without samples has only been asked about
    ]
