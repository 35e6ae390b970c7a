"""The placement of this process, and its permits if no host has given it any."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable
from typing import Final

from greenlane.lanes.permits import LearnedRow, Permits, learned_rows, make_permits
from greenlane.placement import Placement
from greenlane.placement.rule import PlacedRow
from greenlane.settings import Settings, load
from greenlane.threads.unpatched import RLock, in_forked_child
from greenlane.wiring import process
from greenlane.wiring.executors import RemoteExecutors

__all__ = ["make_placement"]

#: How long the exit of the process waits for a call that runs. Arbitrary: long enough for what writes a file.
_EXIT_S: Final = 5.0


def make_placement() -> Placement:
    """Make the placement of this process; its caller sees to it that there is one only."""
    process.check_platform()
    running = process.running()
    settings = load() if running is None else running.settings
    own = _OwnPermits(settings)
    executors = RemoteExecutors(settings)
    found = Placement(settings, own.permits, executors)
    own.placement = found
    process.add_counters(found.counters)
    own.permits()  # Here, not on the lane's thread: under gevent its imports would meet green locks.
    process.add_learner(lambda: _rows(found.placed()))
    # Registered late, so run early: other exit hooks may still place calls, which then run where they are.
    atexit.register(found.lane.close, _EXIT_S)
    return found


class _OwnPermits:
    """The permits of a process without one of our hosts."""

    def __init__(self, settings: Settings) -> None:
        self._running = process.running
        self._settings = settings
        self._permits: Permits | None = None
        self.placement: Placement | None = None
        self._reset_state()
        in_forked_child(self._reset_state)

    def permits(self) -> Permits:
        """Give the permits of this process as it is now."""
        running = self._running()
        if running is not None:
            return running.permits
        return self._permits or self._make()

    def _make(self) -> Permits:
        with self._lock:
            if self._permits is None:
                permits = make_permits(self._settings, mode=self._settings.mode)
                os.register_at_fork(after_in_child=permits.forked)
                if self._settings.control_dir:
                    from greenlane.wiring import control_endpoint

                    part = _PlacementControl(permits, self)
                    control_endpoint.serve(self._settings.control_dir, "permits", part)
                self._permits = permits
            return self._permits

    def _reset_state(self) -> None:
        # Reentrant: a signal's handler may place a call while the first one is being placed.
        self._lock = RLock()


class _PlacementControl:
    """What the control socket shows of a process that only places calls."""

    def __init__(self, permits: Permits, own: _OwnPermits) -> None:
        self.mode = permits.mode
        self.set_mode = permits.set_mode
        self.turns = permits.turns
        self._permits = permits
        self._own = own

    def gang(self) -> None:
        """None: its threads keep to no core."""

    def counters(self) -> dict[str, int]:
        placement = self._own.placement
        return {**self._permits.counters(), **({} if placement is None else placement.counters())}

    def learned(self) -> list[LearnedRow]:
        placement = self._own.placement
        placed = [] if placement is None else _rows(placement.placed())
        names = {row.route for row in placed}
        return [row for row in learned_rows(self._permits) if row.route not in names] + placed


def _rows(rows: Iterable[PlacedRow]) -> list[LearnedRow]:
    """Give placed functions as rows of what is learned: one phase each."""
    return [
        LearnedRow(
            route=row.name,
            phase=0,
            samples=row.calls,
            expected_ms=row.expected_ms,
            weight=row.weight,
            pinned=row.pinned,
            released_frac=row.released_frac,
            placement=row.placement,
            reason=row.reason,
        )
        for row in rows
    ]
