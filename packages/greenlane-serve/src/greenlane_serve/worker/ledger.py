"""What a worker tells its parent: that it turns, and what its requests cost. A few KB of memory that both can reach.

No pipe and no question: a parent that looks now and then wakes no worker, and a worker that is busy does not keep it
waiting. The clock is CLOCK_MONOTONIC, which all processes of a machine share.
"""

from __future__ import annotations

import json
import os
import struct
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

# Time of the last turn; time of the sums, their length, their checksum.
_BEAT: Final = struct.Struct("<Q")
_HEAD: Final = struct.Struct("<QII")
_MOST_BYTES: Final = 1 << 20


class RouteSums(NamedTuple):
    """Of a route's requests that have ended since the worker's start."""

    jobs: int
    # CPU, and of how many requests.
    cpu_ns: int
    cpu_jobs: int


class Sums(NamedTuple):
    """All that a worker tells."""

    # When, monotonic.
    at_ns: int
    routes: Mapping[str, RouteSums]
    # How long requests were blocked, and how often, also those that are still in progress.
    blocked_ns: int = 0
    waits: int = 0
    # How late wake-ups of our own ran: counts of those below 2**i us, as `metrics.lag_histogram` has them; their sum.
    by_lag: Sequence[int] = ()
    lag_ns: int = 0


class Ledger:
    """Either side.

    Args:
        fd: the worker's; None = make one, as the parent does. It is inherited by number.
    """

    def __init__(self, fd: int | None = None) -> None:
        self.fd = os.memfd_create("greenlane-ledger") if fd is None else fd

    def close(self) -> None:
        """Give the descriptor back."""
        os.close(self.fd)

    # -- the worker

    def beat(self) -> None:
        """Say that this process turns. About 1 us; every half a second is often enough."""
        os.pwrite(self.fd, _BEAT.pack(time.monotonic_ns()), 0)

    def write(self, sums: Sums) -> None:
        """Tell. Some 10 us, and 1 us a route."""
        body = json.dumps([sums.routes, sums.blocked_ns, sums.waits, list(sums.by_lag), sums.lag_ns]).encode()
        if len(body) <= _MOST_BYTES:
            os.pwrite(self.fd, _HEAD.pack(sums.at_ns, len(body), zlib.crc32(body)) + body, _BEAT.size)

    # -- the parent

    def last_s(self) -> float:
        """When the worker turned last, monotonic; 0 = not yet. About 1 us."""
        beat = os.pread(self.fd, _BEAT.size, 0)
        return int.from_bytes(beat, "little") / 1e9

    def read(self) -> Sums | None:
        """What it told last; None = nothing yet, or it writes at this moment."""
        page = os.pread(self.fd, _HEAD.size + _MOST_BYTES, _BEAT.size)
        if len(page) < _HEAD.size:
            return None
        at_ns, length, checksum = _HEAD.unpack_from(page)
        body = page[_HEAD.size : _HEAD.size + length]
        if zlib.crc32(body) != checksum:
            return None
        routes, *others = json.loads(body)
        return Sums(at_ns, {route: RouteSums(*row) for route, row in routes.items()}, *others)
