"""Memory files: shared memory without a name, gone with the last process that has it; arrays that all workers see."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from greenlane._native import Commons, Segment

__all__ = ["SharedArrays", "memory_file", "memory_limit_bytes"]

# Nobody can cut a file off under somebody else's mapping (which would be a SIGBUS), or make it larger.
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_CGROUPS: Final = Path("/sys/fs/cgroup")
# Of the two versions of control groups.
_LIMIT_FILES: Final = ("memory.max", "memory/memory.limit_in_bytes")
# One flag for each shared array: at most this many at a time.
_FLAGS: Final = 4096


def memory_file(size: int) -> int:
    """Give the descriptor of a new memory file of `size` bytes, all zero; close it.

    Pages cost memory from when they are first written. No limit of /dev/shm applies, that of the memory cgroup does.
    """
    fd = os.memfd_create("greenlane", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(fd, size)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, _SEALS)
    except BaseException:
        os.close(fd)
        raise
    return fd


def memory_limit_bytes() -> int:
    """What this process may use: the least of its control groups' limits and the machine's memory."""
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _limit_paths():
        with contextlib.suppress(OSError):
            text = path.read_text().strip()
            if text.isdigit():
                limit = min(limit, int(text))
    return limit


class SharedArrays:
    """Memory of an executor's callers, which all its workers see: arrays made in it are not copied.

    Its room comes back when the last view of an array is gone here *and* in each worker that it was sent to: a sender
    keeps what it has sent until that worker has cleared its flag (`_native.Outbox`). Any thread may call.
    """

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
        """Give a writable buffer of this many bytes; None when there is no room."""
        commons = self._commons
        return None if commons is None else commons.block(length)

    def close(self) -> None:
        """Release it; arrays keep the memory. Idempotent."""
        self.segment = self._commons = None
        fd, self.fd = self.fd, -1
        if fd >= 0:
            os.close(fd)


def _limit_paths() -> Iterator[Path]:
    """In a container its group is at the top; elsewhere at a place of its own, and each one above limits it too."""
    for name in _LIMIT_FILES:
        yield _CGROUPS / name
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            own = _CGROUPS / line.rpartition(":")[2].lstrip("/")
            if line.startswith("0::"):
                yield from (group / "memory.max" for group in (own, *own.parents) if group.is_relative_to(_CGROUPS))
