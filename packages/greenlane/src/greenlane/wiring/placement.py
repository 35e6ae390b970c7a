"""The placement of this process, its permits if no host has given it any, and its choices kept over a restart."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from greenlane.errors import LearnedFileError
from greenlane.lanes import learned
from greenlane.lanes.learned import StoredChoice
from greenlane.lanes.permits import LearnedRow, Permits
from greenlane.placement import Placement
from greenlane.placement.choice import PlacedRow
from greenlane.settings import Settings, load
from greenlane.threads.unpatched import RLock, allocate_lock, in_forked_child, start_new_thread
from greenlane.wiring import process
from greenlane.wiring.executors import Elsewhere

__all__ = ["made"]

#: How long the exit of the process waits for a call that runs. Arbitrary: long enough for what writes a file.
_EXIT_S: Final = 5.0


def made() -> Placement:
    """Make the placement of this process; its caller sees to it that there is one only."""
    process.check_platform()
    running = process.running()
    settings = load() if running is None else running.settings
    own = _Own(settings)
    elsewhere = Elsewhere(settings)
    found = Placement(settings, own.permits, elsewhere)
    own.placement = found
    process.add_counters(found.counters)
    own.permits()  # Here, not on the lane's thread: under gevent its imports would meet green locks.
    process.add_learner(lambda: _rows(found.placed()))
    if settings.learned_file:
        _ChoiceSaver(found, Path(settings.learned_file), settings.learned_save_s)
    # Registered late, so run early: other exit hooks may still place calls, which then run where they are.
    atexit.register(found.lane.close, _EXIT_S)
    return found


class _Own:
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
                permits = Permits(self._settings, mode=self._settings.mode)
                os.register_at_fork(after_in_child=permits.forked)
                if self._settings.control_dir:
                    from greenlane.wiring import shown

                    part = _Shown(permits, self)
                    shown.serve(self._settings.control_dir, "permits", part)
                self._permits = permits
            return self._permits

    def _reset_state(self) -> None:
        # Reentrant: a signal's handler may place a call while the first one is being placed.
        self._lock = RLock()


class _Shown:
    """What the control socket shows of a process that only places calls."""

    def __init__(self, permits: Permits, own: _Own) -> None:
        self.mode = permits.mode
        self.set_mode = permits.set_mode
        self.turns = permits.turns
        self._permits = permits
        self._own = own

    def counters(self) -> dict[str, int]:
        placement = self._own.placement
        return {**self._permits.counters(), **({} if placement is None else placement.counters())}

    def learned(self) -> list[LearnedRow]:
        placement = self._own.placement
        placed = [] if placement is None else _rows(placement.placed())
        names = {row.route for row in placed}
        return [row for row in self._permits.learned() if row.route not in names] + placed


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


class _ChoiceSaver:
    """Reads the file once, and writes it now and then and at the exit. A file that cannot be used is left alone."""

    def __init__(self, placement: Placement, path: Path, every_s: float) -> None:
        """Put back what was chosen, and start the thread that writes."""
        self._placement = placement
        self._path = path
        self._every_s = every_s
        with contextlib.suppress(LearnedFileError):
            placement.restore(learned.load_placed(path))
        self._start()
        in_forked_child(self._start)
        atexit.register(self.save)

    def save(self) -> None:
        """Write what has been settled since the start of this process."""
        chosen = {
            row.name: StoredChoice(row.placement, row.why, row.took_ns, row.calls, row.code)
            for row in self._placement.placed()
            if row.settled and not row.pinned
        }
        if chosen:
            # A full disk must not end the service; the next write may succeed.
            with contextlib.suppress(LearnedFileError):
                learned.merge_into(self._path, {}, chosen)

    def _start(self) -> None:
        start_new_thread(self._save_now_and_then, ())

    def _save_now_and_then(self) -> None:
        pause = allocate_lock()  # `time.sleep` may be gevent's
        pause.acquire()
        while not pause.acquire(timeout=self._every_s):
            self.save()
