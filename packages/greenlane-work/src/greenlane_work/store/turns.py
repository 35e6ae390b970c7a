"""Turns of the processes that write to one SQLite file: a lock file that the kernel wakes the next one for.

SQLite itself looks again after up to 100 ms whether a lock is free, and whoever happens to look gets it: four busy
processes then wait up to a second for each other, and some fail. Here they wait in the kernel, without the GIL.

It is advice: where the lock file cannot be made, SQLite's own locks still hold. A process that dies gives its turn up;
one that is stopped in the middle of its own keeps it, as it keeps SQLite's lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from greenlane.real import in_forked_child

__all__ = ["Turns"]


class Turns:
    """The turns at one file, for one thread of this process."""

    def __init__(self, path: str) -> None:
        """Nothing is made before the first turn."""
        self._path = path
        self._fd = -1
        # A lock belongs to what was opened, which a fork shares: a child must not keep its parent's turn.
        in_forked_child(self.close)

    @contextlib.contextmanager
    def mine(self) -> Iterator[None]:
        """Wait for a turn, and end it with the block. Blocks without the GIL."""
        locked = self._lock()
        try:
            yield
        finally:
            if locked and self._fd >= 0:
                fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the lock file."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def _lock(self) -> bool:
        try:
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except OSError:
            return False
        return True
