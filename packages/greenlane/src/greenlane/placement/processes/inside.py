"""What a process that was started for a service knows of itself, and does first."""

from __future__ import annotations

import contextlib
import os

__all__ = ["WORKER", "close_inherited"]

# Whether this process is a worker. Set once, at a worker's start.
WORKER = False


def close_inherited(last_fd: int) -> None:
    """Close what the parent's C code has left inheritable above `last_fd`: a listening socket would stay open here."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > last_fd:
            with contextlib.suppress(OSError):
                os.close(int(name))
