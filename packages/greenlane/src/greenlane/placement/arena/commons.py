"""Memory that belongs to the callers of an executor, and that all its workers see: arrays made in it are not copied.

Its room comes back when the last view of an array is gone here *and* in each worker that it was sent to: a sender keeps
what it has sent until that worker has cleared its flag (`_native.Outbox`).
"""

from __future__ import annotations

import os
from typing import Any, Final

from greenlane._native import Commons, Segment
from greenlane.placement.arena.memory import memory_file

__all__ = ["SharedArrays"]

# A flag an array: at most so many at once.
_FLAGS: Final = 4096


class SharedArrays:
    """One memory file, and who has what of it. Methods may be called on any thread."""

    def __init__(self, size: int) -> None:
        """Make it; pages cost memory from when they are first written.

        Raises:
            OSError: no memory file could be made.
        """
        self.fd = memory_file(size)
        #: The whole; None = closed.
        self.segment: Segment | None = None
        self._commons: Commons | None = None
        try:
            flags = memory_file(_FLAGS * 8)
            try:
                self.segment = Segment(self.fd, writable=True)
                self._commons = Commons(self.segment, Segment(flags, writable=True))
            finally:
                os.close(flags)
        except BaseException:
            self.close()
            raise

    def block(self, length: int) -> Any:
        """Give a writable buffer of so many bytes; None when there is no room."""
        commons = self._commons
        return None if commons is None else commons.block(length)

    def close(self) -> None:
        """Let go of it; arrays keep the memory. Idempotent."""
        self.segment = self._commons = None
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)
