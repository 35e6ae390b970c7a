"""Programs whose split of time is known by construction: `python asyncio_truth.py LOOP PROGRAM FOLDER`.

Each records itself into FOLDER and prints what is true of its jobs as one JSON object. Runs in its own process.
"""

from __future__ import annotations

import asyncio
import functools
import json
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from greenlane._native import Recorder, calls_install
from greenlane.probes import asyncio as probes
from greenlane.probes import children as threads_of_jobs

MS = 1_000_000

recorder = Recorder()
truth: dict[str, Any] = {"jobs": {}}


def burn(ms: float) -> int:
    """Use so much CPU on this thread; gives how much it was, ns."""
    begin = now = time.thread_time_ns()
    while now - begin < ms * MS:
        now = time.thread_time_ns()
    return now - begin


class Job:
    """A job of this task, and what is true of it."""

    def __init__(self, route: str) -> None:
        self.route = route
        self.cpu_ns = 0
        self.io_ns = 0

    def __enter__(self) -> Job:
        self.number = recorder.open(host="test")
        recorder.name(self.route)
        self.begin_ns = time.monotonic_ns()
        return self

    def __exit__(self, *problem: object) -> None:
        end_ns = time.monotonic_ns()
        recorder.close(self.number)
        latency_ns = end_ns - self.begin_ns
        truth["jobs"][self.number] = [self.route, latency_ns, self.cpu_ns, self.io_ns]

    def burn(self, ms: float) -> None:
        self.cpu_ns += burn(ms)


async def hog(ended: asyncio.Event, ms: float = 25) -> None:
    """Compute without a break, then let the others go on, until `ended`."""
    while not ended.is_set():
        with Job("hog") as job:
            job.burn(ms)
        await asyncio.sleep(0.002)


async def beside_hog(victim: Callable[[], Awaitable[None]]) -> None:
    ended = asyncio.Event()
    task = asyncio.create_task(hog(ended))
    await asyncio.create_task(victim())  # type: ignore[arg-type]
    ended.set()
    await task


async def threads() -> None:
    """Another thread says at a known moment that the task can go on."""
    loop = asyncio.get_running_loop()

    def tell(future: asyncio.Future[int]) -> None:
        time.sleep(0.02)
        at_ns = time.monotonic_ns()
        loop.call_soon_threadsafe(future.set_result, at_ns)

    async def victim() -> None:
        for _ in range(15):
            with Job("victim") as job:
                future = loop.create_future()
                threading.Thread(target=tell, args=(future,)).start()
                began_ns = time.monotonic_ns()
                truth.setdefault("blocked_ns", {})[job.number] = await future - began_ns

    await beside_hog(victim)


async def children() -> None:
    """Tasks of every making belong to the job: 8 x 2 ms of CPU, in turns."""

    async def child(job: Job) -> None:
        await asyncio.sleep(0.005)
        job.burn(2)

    for _ in range(10):
        with Job("parent") as job:
            await asyncio.gather(*(child(job) for _ in range(3)))
            async with asyncio.TaskGroup() as group:
                for _ in range(3):
                    group.create_task(child(job))
            await asyncio.wait({asyncio.create_task(child(job))})
            await asyncio.wait_for(child(job), 1)


async def cancelled() -> None:
    """What was cancelled or timed out, in all its ways; no part of it outlives its job."""

    async def sleeper() -> None:
        await asyncio.sleep(10)

    for _ in range(5):
        with Job("timeout") as job:
            try:
                async with asyncio.timeout(0.02):
                    await asyncio.sleep(10)
            except TimeoutError:
                job.io_ns = 20 * MS
        with Job("before its first step"):
            task = asyncio.create_task(sleeper())
            task.cancel()
            await asyncio.wait({task})
        with Job("asleep") as job:
            task = asyncio.create_task(sleeper())
            await asyncio.sleep(0.01)
            task.cancel()
            await asyncio.wait({task})
            job.io_ns = 10 * MS
        with Job("group"):
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(sleeper())
                    await asyncio.sleep(0)
                    raise KeyError
            except* KeyError:
                pass


async def executors() -> None:
    """Functions on threads belong to their job; beyond the pool's size they wait for it."""
    loop = asyncio.get_running_loop()
    with ThreadPoolExecutor(1) as pool:
        for _ in range(5):
            with Job("thread") as job:
                job.cpu_ns += await asyncio.to_thread(burn, 10)
            with Job("pool") as job:
                begin_ns = time.monotonic_ns()
                slept = [loop.run_in_executor(pool, time.sleep, 0.01) for _ in range(3)]
                await asyncio.gather(*slept)
                truth.setdefault("slept_ns", {})[job.number] = time.monotonic_ns() - begin_ns


async def blocking() -> None:
    """A coroutine that blocks its loop; beside it a task that could go on."""

    async def victim() -> None:
        for _ in range(5):
            with Job("victim") as job:
                await asyncio.sleep(0.001)
                job.io_ns = MS

    async def sleeper() -> None:
        with Job("sleeper") as job:
            time.sleep(0.05)
            job.io_ns = 50 * MS

    await asyncio.gather(victim(), sleeper())


async def locks() -> None:
    """One job holds what the other one waits for."""
    lock = asyncio.Lock()

    async def holder() -> None:
        with Job("holder") as job:
            async with lock:
                await asyncio.sleep(0.03)
                job.io_ns = 30 * MS

    async def waiter() -> None:
        await asyncio.sleep(0.005)
        with Job("waiter"):
            async with lock:
                pass

    for _ in range(5):
        await asyncio.gather(holder(), waiter())


async def many() -> None:
    """10,000 short jobs: sums must be exact in each."""

    async def one(number: int) -> None:
        with Job(f"route {number % 7}"):
            await asyncio.sleep(number % 5 * 0.001)
            await asyncio.gather(*(asyncio.sleep(0) for _ in range(number % 3)))

    for begin in range(0, 10_000, 500):
        await asyncio.gather(*(one(number) for number in range(begin, begin + 500)))


PROGRAMS = (threads, children, cancelled, executors, blocking, locks, many)


def new_loop(name: str) -> asyncio.AbstractEventLoop:
    if name == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


def main() -> None:
    kind, wanted, folder = sys.argv[1:]
    program = next(program for program in PROGRAMS if program.__name__ == wanted)
    if calls_install():
        sys.exit("the C library's calls are not redirected")
    probes.install()
    if wanted == "executors":
        threads_of_jobs.install()  # else a thread that is started works for no job
    recorder.start(folder, max_bytes=1 << 28, about="{}")
    with asyncio.Runner(loop_factory=functools.partial(new_loop, kind)) as runner:
        runner.run(program())
    recorder.flush()
    recorder.stop()
    truth["lost"] = recorder.stats()["lost"]
    print(json.dumps(truth))


if __name__ == "__main__":
    main()
