"""Shares of the last seconds: garbage collection, throttling by a CPU quota, waits for the GIL."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from greenlane._native import CollectionTime
from greenlane.policy.cores import CGROUPS, MEMBERSHIP, cgroup_folders, cpu_quota
from greenlane.troubles.trouble import Trouble

__all__ = ["Collector", "GilWaits", "Quota", "Recent"]

#: Of the time: below this others take more.
_COLLECTOR_FRAC: Final = 0.3
#: The generations that are large: the last one, and from 3.14 on what is collected in increments, too.
_OLD: Final = 1 if sys.version_info >= (3, 14) else 2
#: Without such a collection for this long nobody listens to them.
_QUIET_NS: Final = 10_000_000_000
#: Of the periods of the quota.
_THROTTLED_FRAC: Final = 0.5
#: Of the time.
_GIL_FRAC: Final = 0.5


class Recent:
    """How much a counter has grown within the last `span_ns`."""

    def __init__(self, span_ns: int) -> None:
        self._span_ns = span_ns
        self._looks: deque[tuple[int, float]] = deque()

    def take(self, now_ns: int, total: float) -> tuple[float, int]:
        """(growth, time in ns); a time shorter than the span: it is not known for so long yet."""
        while len(self._looks) > 1 and self._looks[1][0] <= now_ns - self._span_ns:
            self._looks.popleft()
        self._looks.append((now_ns, total))
        then_ns, before = self._looks[0]
        return total - before, now_ns - then_ns


class Collector:
    """Garbage collection. Its callback is there only while old objects are collected."""

    def __init__(self, span_ns: int) -> None:
        self._span_ns, self._time, self._over = span_ns, CollectionTime(), False
        self._recent, self._old = Recent(span_ns), Recent(_QUIET_NS)

    def stop(self) -> None:
        """Take the callback out, for good."""
        self._over = True
        self._leave()

    def _leave(self) -> None:
        with contextlib.suppress(ValueError):
            gc.callbacks.remove(self._time)

    def look(self, now_ns: int) -> Iterator[Trouble]:
        """Give the finding, if it takes much."""
        collected, _ = self._old.take(now_ns, sum(each["collections"] for each in gc.get_stats()[_OLD:]))
        if not collected:
            self._leave()
        elif self._time not in gc.callbacks:
            gc.callbacks.append(self._time)
        if self._over:  # since before, or meanwhile
            self._leave()
        spent_ns, of_ns = self._recent.take(now_ns, self._time.spent_ns())
        if of_ns >= self._span_ns and spent_ns >= _COLLECTOR_FRAC * of_ns:
            ms = 1000 * spent_ns / of_ns
            text = f"garbage collection takes {ms:.0f} ms of each second"
            yield Trouble("collector", text, counts_now=True)


class Quota:
    """Throttling of this process's cgroup, or of one above it."""

    def __init__(self, span_ns: int, cgroups: Path = CGROUPS, membership: Path = MEMBERSHIP) -> None:
        self._span_ns = span_ns
        self._where = cgroups, membership
        folders = (folder / "cpu.stat" for folder in cgroup_folders(cgroups, membership))
        self._files = [(file, Recent(span_ns), Recent(span_ns)) for file in folders if file.is_file()]

    def look(self, now_ns: int) -> Iterator[Trouble]:
        """Give the finding, if it takes much."""
        most = 0.0
        for file, periods, throttled in self._files:
            with contextlib.suppress(OSError, ValueError, KeyError):
                told = dict(line.split() for line in file.read_text().splitlines())
                of, of_ns = periods.take(now_ns, int(told["nr_periods"]))
                count, _ = throttled.take(now_ns, int(told["nr_throttled"]))
                if of and of_ns >= self._span_ns:
                    most = max(most, count / of)
        if most >= _THROTTLED_FRAC:
            text = (
                f"no core: the CPU quota of {cpu_quota(*self._where):g} cores throttles {100 * most:.0f} % of the time"
            )
            yield Trouble("quota", text, counts_now=True)


class GilWaits:
    """Waits of the looks for the GIL: one that is long has met a call in C that does not release it."""

    def __init__(self, span_ns: int) -> None:
        self._span_ns, self._total_ns = span_ns, 0
        self._recent = Recent(span_ns)
        self._by = ""

    def look(self, now_ns: int, waited_ns: int, by: str) -> Iterator[Trouble]:
        """Give the finding, if they take much. `by`: who has computed meanwhile."""
        self._total_ns += waited_ns
        self._by = by or self._by
        spent_ns, of_ns = self._recent.take(now_ns, self._total_ns)
        if of_ns >= self._span_ns and spent_ns >= _GIL_FRAC * of_ns:
            text = f"the GIL is held {100 * min(1, spent_ns / of_ns):.0f} % of the time by {self._by}"
            yield Trouble("gil", text, counts_now=True)
