"""A run inside a real gunicorn with dirty arbiters: its ASGI application measures, its dirty application computes.

The job comes in the environment, as `PLACEMENT_JOB`. The application begins when its worker's loop does; no request
is needed. Each caller is a task with a client of its own, as gunicorn gives one to each request.
"""

from __future__ import annotations

import asyncio
import os
import pickle
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from gunicorn.dirty import DirtyApp, get_dirty_client_async
from gunicorn.dirty.errors import DirtyConnectionError

from greenlane_tools.lab.placement import work
from greenlane_tools.lab.placement.programs.beats import measured
from greenlane_tools.lab.placement.programs.job import Job
from greenlane_tools.lab.placement.programs.result import left

JOB_VARIABLE: Final = "PLACEMENT_JOB"
_PATH: Final = f"{__name__}:Work"
_TRIES: Final = 200
_BETWEEN_S: Final = 0.05
_running: Final[list[asyncio.Task[None]]] = []

Message = MutableMapping[str, Any]


class Work(DirtyApp):  # type: ignore[misc] # gunicorn has no types
    """What dirty workers have loaded."""

    def call(self, name: str, blob: bytes) -> bytes:
        """Call the function of that name; what crosses are bytes, since gunicorn's own encoding knows no arrays."""
        return work.packed_call(getattr(work, name), blob)


async def application(
    scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
) -> None:
    """Measure when the server has started."""
    assert scope["type"] == "lifespan", "nobody asks this server for anything"
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
            _running.append(asyncio.create_task(_measure()))
        else:
            await send({"type": "lifespan.shutdown.complete"})
            return


async def _measure() -> None:
    job = Job.read(os.environ[JOB_VARIABLE])
    fn, args = job.call()

    async def call() -> Any:
        client = await get_dirty_client_async()
        return pickle.loads(await client.execute_async(_PATH, "call", fn.__name__, pickle.dumps(args, 5)))

    # In a task of its own: a client belongs to the context that asked for it first, and each caller is to have its own.
    await asyncio.create_task(_started())
    left(job, await measured(job, call, os.getppid()), fn, args)


async def _started() -> None:
    """The dirty arbiter starts beside this worker: wait for its socket."""
    client = await get_dirty_client_async()
    for _ in range(_TRIES):
        try:
            await client.execute_async(_PATH, "call", "nap", pickle.dumps((0,), 5))
        except DirtyConnectionError:
            await asyncio.sleep(_BETWEEN_S)
        else:
            break
    await client.close_async()
