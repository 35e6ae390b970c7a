"""Functions that tests place on a cluster: here it is this machine."""

from __future__ import annotations

import os
import sys
import zlib
from typing import Any

import greenlane
from greenlane.placement.cluster.executor import RayExecutor
from greenlane.placement.cluster.options import ClusterOptions


def pid() -> int:
    return os.getpid()


def same(value: Any) -> Any:
    return value


def about(array: Any) -> tuple[int, bool, bool]:
    """Checksum, whether it may be written to, and whether its memory is somebody else's."""
    return zlib.crc32(array), array.flags.writeable, array.flags.owndata


def die(status: int) -> None:
    os._exit(status)


def once(path: Any) -> None:
    """Leave a mark of this call, then die."""
    with open(path, "a") as file:
        file.write("begun\n")
    os._exit(1)


def parsed(text: Any) -> tuple[str, int]:
    return type(text).__name__, len(text)


def unpicklable() -> Any:
    return sys._getframe()


def place_again() -> Any:
    RayExecutor(ClusterOptions(address="local")).submit(greenlane.placement.Call(pid))  # type: ignore[attr-defined]
