"""A sign of life from a worker to its parent: the time of its last turn, in a few bytes that both can reach.

No pipe: a parent that looks now and then is not woken for each of them. The clock is CLOCK_MONOTONIC, which all
processes of a machine share.
"""

from __future__ import annotations

import os
import time
from typing import Final

__all__ = ["Beat", "beat"]

_BYTES: Final = 8


class Beat:
    """The parent's side. `fd` is the worker's too."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("greenlane-beat")

    def last_s(self) -> float:
        """When the worker gave the last one, monotonic; 0 = none yet. About 1 us."""
        return int.from_bytes(os.pread(self.fd, _BYTES, 0), "little") / 1e9

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)


def beat(fd: int) -> None:
    """Say that this process turns. About 1 us; every half a second is often enough."""
    os.pwrite(fd, time.monotonic_ns().to_bytes(_BYTES, "little"), 0)
