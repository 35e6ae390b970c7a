"""What was chosen for placed functions: shown with what the permits learn, and kept over a restart in the same file."""

from __future__ import annotations

import atexit
import contextlib
from collections.abc import Iterable
from pathlib import Path

from greenlane.errors import LearnedFileError
from greenlane.lanes import LearnedRow, learned
from greenlane.lanes.learned import StoredChoice
from greenlane.lanes.placed import Placement
from greenlane.lanes.placed.choice import PlacedRow
from greenlane.real import allocate_lock, in_forked_child, start_new_thread

__all__ = ["Keeper", "learned_rows"]


def learned_rows(rows: Iterable[PlacedRow]) -> list[LearnedRow]:
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


class Keeper:
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
