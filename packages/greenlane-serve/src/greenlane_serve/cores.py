"""What processes got of the machine's cores: how long they ran, and how long they waited for a core.

A worker whose requests stay long because others use the machine is no worker that has too many of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

__all__ = ["Cores", "Got", "got_of"]

# Who is not asked about for so long is forgotten. Arbitrary.
_KEPT_S: Final = 600.0


class Got(NamedTuple):
    """Of a process, all threads together, since its start; or as shares of the time since the last look."""

    ran: float
    # Threads that could run side by side wait side by side: it may be more than the time.
    starved: float


class Cores:
    """What processes got since they were last asked about.

    Args:
        of: what one got since its start, in ns; None = it has ended.
        clock: monotonic, in s.
    """

    def __init__(
        self, of: Callable[[int], Got | None] = lambda pid: got_of(pid), clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._of = of
        self._clock = clock
        self._before: dict[int, tuple[float, Got]] = {}

    def take(self, pids: Iterable[int]) -> dict[int, Got]:
        """Shares of the time since each was last asked about; of one that is new nothing.

        Cost: some 10 µs a thread of theirs.
        """
        shares = {}
        for pid in pids:
            now_s, now = self._clock(), self._of(pid)
            if now is None:
                continue
            if pid in self._before and (span_ns := (now_s - self._before[pid][0]) * 1e9) > 0:
                pairs = zip(now, self._before[pid][1], strict=True)
                shares[pid] = Got(*(max(0.0, (here - then) / span_ns) for here, then in pairs))
            self._before[pid] = now_s, now
        oldest_s = self._clock() - _KEPT_S
        self._before = {pid: one for pid, one in self._before.items() if one[0] > oldest_s}
        return shares


def got_of(pid: int) -> Got | None:
    """What a process got since its start, in ns, of the threads that it has; None = it has ended, or is not ours."""
    ran = starved = 0
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{thread}/schedstat", "rb") as file:
                    words = file.read().split()
            except OSError:  # the thread has ended
                continue
            ran, starved = ran + int(words[0]), starved + int(words[1])
    except (OSError, IndexError, ValueError):
        return None
    return Got(ran, starved)
