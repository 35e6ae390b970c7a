"""Memory files: shared memory without a name, gone with the last process that has it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

__all__ = ["memory_file", "memory_limit_bytes"]

# Nobody can cut a file off under somebody else's mapping (which would be a SIGBUS), or make it larger.
_SEALS: Final = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
_CGROUP_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


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
    """What this container or machine may use: the smaller of cgroup limit and physical memory."""
    limit = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in _CGROUP_LIMITS:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            limit = min(limit, int(text))
    return limit
