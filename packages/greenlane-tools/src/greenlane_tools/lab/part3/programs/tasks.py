"""asyncio: a semaphore of N, a task a request, made as soon as there is room.

`asyncio` polls with select(2), whose timeouts are microseconds where epoll's are whole milliseconds: eleven waits of
11 ms would else measure the rounding. `uvloop` has one clock of whole milliseconds and no choice.
"""

from __future__ import annotations

import asyncio
import platform
import selectors
import sys
from importlib import metadata

from greenlane_tools.lab.part3.programs.program import Job, Places, main, now_ns


async def _request(job: Job, places: Places, record: list[int], room: asyncio.Semaphore) -> None:
    # The same as Job.serve; a coroutine's waits must be awaited.
    record.append(now_ns())
    job.work(job.bursts[0])
    for wait_s, burst in zip(job.waits_s, job.bursts[1:], strict=True):
        record.append(now_ns())
        if job.together:
            await asyncio.gather(*(asyncio.sleep(wait_s) for _ in range(job.together)))
        else:
            await asyncio.sleep(wait_s)
        record.append(now_ns())
        job.work(burst)
    record.append(now_ns())
    places.ended(record)
    room.release()


async def _all(job: Job, places: Places) -> None:
    room = asyncio.Semaphore(job.green_threads)
    tasks = []
    places.open()
    for _ in range(job.requests):
        await room.acquire()
        tasks.append(asyncio.create_task(_request(job, places, places.spawn(), room)))
    await asyncio.gather(*tasks)


async def _turns(count: int) -> None:
    async def half() -> None:
        for _ in range(count // 2):
            await asyncio.sleep(0)

    await asyncio.gather(half(), half())


def _start(kind: str) -> None:
    if kind == "uvloop":
        import uvloop

        name = f"uvloop {metadata.version('uvloop')}"
        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    else:
        name = f"asyncio of {platform.python_implementation()} {platform.python_version()}, select"
        runner = asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector()))
    with runner:
        main(name, lambda job, places: runner.run(_all(job, places)), lambda count: runner.run(_turns(count)))


if __name__ == "__main__":
    _start(sys.argv[2])
