"""CPU permits of this process: the native permits under the project's rules, and what they have learned.

The waiting, waking and watching are native (`crates/permits/src/gate/`): a waiter that polls its holder must
not need the GIL for that. A forked child has permits of its own (`forks.rs`). This shell gives them their rules.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from greenlane import _native
from greenlane.errors import DeadlineExceeded
from greenlane.policy.permits import PermitRule
from greenlane.settings import Settings

__all__ = ["NS_PER_MS", "LearnedRow", "Permits"]

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


class Permits:
    """An `Observer` of phases and the `Jobs` of this process.

    The methods that stand on the path of every blocking call are the native ones themselves, as attributes.
    """

    def __init__(self, settings: Settings, *, mode: str) -> None:
        """Make the permits of a process.

        Args:
            settings: the rules.
            mode: "on", "observe" or "off" for this process; a canary's may differ from `settings.mode`.
        """
        rule = PermitRule.of(settings)
        late_error = DeadlineExceeded if settings.deadline_cancel else None
        self._native = _native.Permits(**vars(rule), mode=mode, late_error=late_error)
        self.open = self._native.open
        self.read_requests = self._native.read_requests
        self.open_request = self._native.open_request
        self.close = self._native.close
        self.pause = self._native.pause
        self.leave = self._native.leave
        self.enter = self._native.enter
        self.name = self._native.name
        self.pin = self._native.pin
        self.linger = self._native.linger
        self.active = self._native.active
        self.deadline_ns = self._native.deadline_ns
        self.remaining_ms = self._native.remaining_ms
        self.mode = self._native.mode
        self.set_mode = self._native.set_mode
        self.pressure = self._native.pressure
        self.forked = self._native.forked

    def counters(self) -> dict[str, int]:
        """Give the counters by name; see `greenlane.metrics`."""
        return dict(self._native.counters())

    def turns(self) -> dict[str, dict[str, int]]:
        """Give the counters of each route whose phases were heavy; see `greenlane.metrics`."""
        return {route: counted for route, rows in self._native.turns() if any((counted := dict(rows)).values())}

    def learned(self) -> list[LearnedRow]:
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
            for route, pin, rows in self._native.learned()
            for phase, mean_ns, samples, looks, free, weight in rows
            if samples  # a row without samples has only been asked about
        ]
