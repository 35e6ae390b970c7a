"""A heartbeat and callers on one event loop: a fixed number of calls, and what they and the heartbeat took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from greenlane_tools.lab import processes
from greenlane_tools.lab.placement.programs.job import Job, Result

BEAT_S: Final = 0.001
#: The heartbeat goes on for this long when the last call has ended, so that it can tell of that call too.
AFTER_S: Final = 0.02

Call = Callable[[], Awaitable[Any]]


class Count:
    """Calls that are left, and the result as it grows."""

    def __init__(self, job: Job, root: int) -> None:
        """Count calls of that job.

        Args:
            root: the process whose CPU counts, with that of all below it.
        """
        self.result = Result()
        # What the last call that ended well gave.
        self.given: Any = None
        self.over = False
        self._from_s = float("inf")
        self._left = job.warm
        self._calls = job.calls
        self._root = root

    def take(self) -> bool:
        """Whether one more call is to be made."""
        self._left -= 1
        return self._left >= 0

    def begin(self) -> None:
        """What comes now counts."""
        self._left = self._calls
        self.result = Result(cpu_ns=-processes.cpu_ns(processes.descendants(self._root)))
        self._from_s = time.perf_counter()

    def end(self) -> None:
        """The last call has ended."""
        self.result.seconds = time.perf_counter() - self._from_s
        self.result.cpu_ns += processes.cpu_ns(processes.descendants(self._root))

    def took(self, ns: int, given: object) -> None:
        """A call has ended well, and gave this."""
        self.given = given
        self.result.took_ms.append(ns / 1e6)

    def failed(self, error: BaseException) -> None:
        """A call has failed."""
        self.result.errors += 1
        self.result.first_error = self.result.first_error or f"{type(error).__name__}: {error}"

    def beat(self, begun_s: float) -> None:
        """The heartbeat that began to sleep then has come back."""
        if begun_s >= self._from_s:
            self.result.late_ms.append(max(time.perf_counter() - begun_s - BEAT_S, 0.0) * 1e3)


async def measured(job: Job, call: Call, root: int) -> Count:
    """Warm up, then count. A job without callers is a heartbeat alone.

    A call's time begins when its caller's former one has ended: a caller on a loop that somebody keeps busy waits for
    its turn, and that is part of what a job takes.
    """
    count = Count(job, root)
    heart = asyncio.create_task(_beats(count))
    await _called(count, call, job)
    count.begin()
    await (_called(count, call, job) if job.callers else asyncio.sleep(job.seconds))
    count.end()
    await asyncio.sleep(AFTER_S)
    count.over = True
    await heart
    return count


async def _called(count: Count, call: Call, job: Job) -> None:
    await asyncio.gather(*(_caller(count, call) for _ in range(job.callers)))


async def _beats(count: Count) -> None:
    while not count.over:
        begun_s = time.perf_counter()
        await asyncio.sleep(BEAT_S)
        count.beat(begun_s)


async def _caller(count: Count, call: Call) -> None:
    before_ns = time.perf_counter_ns()
    while count.take():
        try:
            given = await call()
        except Exception as error:
            count.failed(error)
            await asyncio.sleep(0)
            before_ns = time.perf_counter_ns()
        else:
            now_ns = time.perf_counter_ns()
            count.took(now_ns - before_ns, given)
            before_ns = now_ns
