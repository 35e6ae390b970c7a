"""One run of `bench.heartbeat` in a process of its own: prints one JSON object.

`python -m bench.heartbeat_cell LOOP CONTENDER CALLERS ITERATIONS SECONDS`
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

BEAT_S = 0.001
#: Not counted: threads start, functions are learned.
WARM_UP_S = 0.5


def compute(iterations: int) -> int:
    """Pure Python that keeps the GIL."""
    value = 0
    for number in range(iterations):
        value += number * number
    return value


class Count:
    """What a run has counted since its warm-up."""

    def __init__(self, seconds: float) -> None:
        begin = time.perf_counter()
        self.from_s = begin + WARM_UP_S
        self.to_s = self.from_s + seconds
        self.late_ms: list[float] = []
        self.jobs = 0
        self.cpu_s: list[float] = []

    def on(self) -> bool:
        """Whether to go on; reads the CPU clock at the begin and the end of what counts."""
        now = time.perf_counter()
        if now >= self.from_s and not self.cpu_s:
            self.cpu_s.append(time.process_time())
            self.late_ms.clear()
            self.jobs = 0
            self.from_s = now
        return now < self.to_s

    def beat(self, slept_s: float) -> None:
        """One heartbeat came."""
        self.late_ms.append((slept_s - BEAT_S) * 1e3)

    def row(self) -> dict[str, object]:
        """The run's result."""
        spent_s = time.process_time() - self.cpu_s[0]
        took_s = time.perf_counter() - self.from_s
        return {"late_ms": self.late_ms, "jobs": self.jobs, "cpu_s": spent_s, "seconds": took_s}


def on_loop(contender: str, callers: int, iterations: int, seconds: float) -> Callable[[], Awaitable[Count]]:
    """The run on asyncio or uvloop."""
    import greenlane

    async def inline() -> None:
        compute(iterations)
        await asyncio.sleep(0)

    calls: dict[str, Callable[[], Awaitable[object]]] = {
        "inline": inline,
        "greenlane": lambda: greenlane.run(compute, iterations),
        "to-thread": lambda: asyncio.to_thread(compute, iterations),
        "to-thread-0.5ms": lambda: asyncio.to_thread(compute, iterations),
        "pool-of-1-0.5ms": lambda: asyncio.get_running_loop().run_in_executor(pool, compute, iterations),
    }
    pool = ThreadPoolExecutor(1)

    async def beat(count: Count) -> None:
        while count.on():
            begin = time.perf_counter()
            await asyncio.sleep(BEAT_S)
            count.beat(time.perf_counter() - begin)

    async def caller(count: Count) -> None:
        while count.on():
            await calls[contender]()
            count.jobs += 1

    async def program() -> Count:
        count = Count(seconds)
        await asyncio.gather(beat(count), *(caller(count) for _ in range(0 if contender == "idle" else callers)))
        return count

    return program


def on_hub(contender: str, callers: int, iterations: int, seconds: float) -> Count:
    """The run on gevent, monkey-patched as services are."""
    from gevent import monkey

    monkey.patch_all()
    import gevent
    from gevent.threadpool import ThreadPool

    import greenlane

    def inline() -> None:
        compute(iterations)
        gevent.sleep(0)

    pool = gevent.get_hub().threadpool
    one = ThreadPool(1)
    calls: dict[str, Callable[[], object]] = {
        "inline": inline,
        "greenlane": lambda: greenlane.run(compute, iterations),
        "to-thread": lambda: pool.apply(compute, (iterations,)),
        "to-thread-0.5ms": lambda: pool.apply(compute, (iterations,)),
        "pool-of-1-0.5ms": lambda: one.apply(compute, (iterations,)),
    }
    count = Count(seconds)

    def beat() -> None:
        while count.on():
            begin = time.perf_counter()
            gevent.sleep(BEAT_S)
            count.beat(time.perf_counter() - begin)

    def caller() -> None:
        while count.on():
            calls[contender]()
            count.jobs += 1

    gevent.joinall(
        [gevent.spawn(beat), *(gevent.spawn(caller) for _ in range(0 if contender == "idle" else callers))],
        raise_error=True,
    )
    return count


def main() -> None:
    """Run and print."""
    loop, contender = sys.argv[1:3]
    callers, iterations, seconds = int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    if contender.endswith("-0.5ms"):
        sys.setswitchinterval(0.0005)
    if loop == "gevent":
        count = on_hub(contender, callers, iterations, seconds)
    else:
        program = on_loop(contender, callers, iterations, seconds)
        if loop == "uvloop":
            import uvloop

            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                count = runner.run(program())  # type: ignore[arg-type] # a coroutine
        else:
            count = asyncio.run(program())  # type: ignore[arg-type] # a coroutine
    print(json.dumps(count.row()))


if __name__ == "__main__":
    main()
