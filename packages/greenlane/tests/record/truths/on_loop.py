"""Tasks under asyncio or uvloop: `python -m tests.record.truths.on_loop WHAT COUNT LOOP`, by GREENLANE_RECORD_FOLDER.

A victim uses CPU, then waits for one thing while hogs use the CPU: for a reply of another process, for a timer, for an
event that another task sets, for its own child task.
"""

from __future__ import annotations

import asyncio
import functools
import sys
import time
from collections.abc import Awaitable, Callable

from tests.record.truths.known import AWAY_NS, HOG_NS, MOMENT, MOMENTS, OWN_NS, Known, Replying, burn, told

from greenlane.record.jobs import job
from greenlane.wiring.recording import start_recording

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]
_others: asyncio.Queue[Callable[[], Awaitable[None]]] = asyncio.Queue()


async def _hog(stop: list[bool]) -> None:
    while not stop:
        with job("hog"):
            burn(HOG_NS, "hog")
        await asyncio.sleep(0.001)


async def _works_for_others() -> None:
    """What is not a part of the victim's job is done by somebody else."""
    while True:
        await (await _others.get())()


async def for_reply(known: Known, ends: Ends) -> None:
    """Wait for another process's reply, on a stream."""
    reader, writer = ends
    writer.write(MOMENT.pack(time.monotonic_ns() + AWAY_NS))
    known.left()
    reply = await reader.readexactly(MOMENTS.size)
    known.resumed()
    known.replied(reply)


async def for_timer(known: Known, _ends: Ends) -> None:
    """Sleep."""
    known.left()
    await asyncio.sleep(AWAY_NS / 1e9)
    known.resumed()
    known.io_until(known.left_ns + AWAY_NS)


async def for_event(known: Known, _ends: Ends) -> None:
    """Wait for an event that another task's job sets and then computes on."""
    event, moments = asyncio.Event(), list[int]()

    async def sets() -> None:
        await asyncio.sleep(AWAY_NS / 1e9)
        with job("setter"):
            moments.append(time.monotonic_ns())
            event.set()
            burn(HOG_NS, "setter")

    _others.put_nowait(sets)
    known.left()
    await event.wait()
    known.resumed()
    known.blocked_until(moments[0])


async def for_child(known: Known, _ends: Ends) -> None:
    """The child does the job's work, and begins late: somebody else's turn was first."""
    begun: list[tuple[int, int, int]] = []

    async def works() -> None:
        from_ns, from_cpu_ns = time.monotonic_ns(), time.thread_time_ns()
        burn(OWN_NS, "victim")
        begun.append((time.thread_time_ns() - from_cpu_ns, from_ns, time.monotonic_ns()))

    async def is_first() -> None:
        with job("setter"):
            burn(HOG_NS, "setter")

    _others.put_nowait(is_first)
    known.left()
    await asyncio.sleep(0)
    await asyncio.create_task(works())
    known.resumed()
    known.waited_but(*begun[0])


async def _victim(wait: Callable[[Known, Ends], Awaitable[None]], ends: Ends) -> None:
    known = Known()
    with job("victim") as number:
        burn(OWN_NS, "victim")
        await wait(known, ends)
        burn(OWN_NS, "victim")
    known.ended(number)


async def _play(what: str, count: int) -> None:
    replying = Replying()
    replying.end.setblocking(False)
    ends = await asyncio.open_connection(sock=replying.end)
    stop: list[bool] = []
    others = [asyncio.create_task(one) for one in (_hog(stop), _hog(stop), _works_for_others())]
    for _ in range(count):
        await asyncio.create_task(_victim(globals()[f"for_{what}"], ends))  # type: ignore[arg-type]
        await asyncio.sleep(0.003)
    stop.append(True)
    await asyncio.gather(*others[:2])
    others[2].cancel()
    ends[1].close()
    await ends[1].wait_closed()
    replying.close()


def _loop(name: str) -> asyncio.AbstractEventLoop:
    if name == "uvloop":
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


def main() -> None:
    """Play `what` this many times on the loop that is named, beside tasks that compute; prints what is known."""
    what, count, loop = sys.argv[1:]
    start_recording()
    with asyncio.Runner(loop_factory=functools.partial(_loop, loop)) as runner:
        runner.run(_play(what, int(count)))
    told()


if __name__ == "__main__":
    main()
