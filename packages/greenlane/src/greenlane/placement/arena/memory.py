"""Memory files: shared memory without a name, gone with the last process that has it."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["memory_file", "memory_limit_bytes"]

# Nobody can cut a file off under somebody else's mapping (which would be a SIGBUS), or make it larger.
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_CGROUPS: Final = Path("/sys/fs/cgroup")
# Of the two versions of control groups.
_LIMIT_FILES: Final = ("memory.max", "memory/memory.limit_in_bytes")


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


def _limit_paths() -> Iterator[Path]:
    """In a container its group is at the top; elsewhere at a place of its own, and each one above limits it too."""
    for name in _LIMIT_FILES:
        yield _CGROUPS / name
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            own = _CGROUPS / line.rpartition(":")[2].lstrip("/")
            if line.startswith("0::"):
                yield from (group / "memory.max" for group in (own, *own.parents) if group.is_relative_to(_CGROUPS))
