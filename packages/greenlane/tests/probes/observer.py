"""Who listens in the probes' tests: counts the phase ends of one thread, never how long anything takes."""

from __future__ import annotations

import threading
from collections.abc import Callable

from greenlane.phase import Kind


class Observer:
    """A `phase.Observer` and `phase.Jobs` of the thread that made it.

    Attributes:
        ends: the kind of each phase end, outermost pairs only.
        depth: pairs that are open now; 0 when everything is balanced.
        meanwhile: called once, at the next phase end, before the call blocks: what makes the blocking call return.
    """

    def __init__(self) -> None:
        self.ends: list[Kind] = []
        self.depth = 0
        self.names: list[str] = []
        self.pins: list[tuple[str, str]] = []
        self.meanwhile: Callable[[], object] | None = None
        self.deadline_ms: int | None = None
        self._thread = threading.get_ident()

    def leave(self, kind: int) -> None:
        if threading.get_ident() != self._thread:
            return
        self.depth += 1
        if self.depth == 1:
            self.ends.append(Kind(kind))
            meanwhile, self.meanwhile = self.meanwhile, None
            if meanwhile is not None:
                meanwhile()

    def enter(self) -> None:
        if threading.get_ident() == self._thread:
            self.depth -= 1
            assert self.depth >= 0, "a phase began that had not ended"

    def name(self, route: str) -> None:
        self.names.append(route)

    def pin(self, route: str, weight: str) -> None:
        self.pins.append((route, weight))

    def active(self) -> bool:
        return threading.get_ident() == self._thread

    def remaining_ms(self) -> int | None:
        return self.deadline_ms if self.active() else None

    def during(self, call: Callable[..., object], *args: object, **kwargs: object) -> list[Kind]:
        """Give the phase ends of one call; whatever it raises is the test's."""
        before = len(self.ends)
        try:
            call(*args, **kwargs)
        finally:
            assert self.depth == 0
        return self.ends[before:]
