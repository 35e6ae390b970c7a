"""Waiting for a call on an event loop, asyncio's or uvloop's. Nothing here imports asyncio."""

from __future__ import annotations

import contextlib
import sys
import time
import types
from collections.abc import Generator
from typing import Any

from greenlane.lanes.placed.call import Call
from greenlane.lanes.placed.executor import Executor

__all__ = ["turn", "wait"]


async def wait(executor: Executor, call: Call, loop: Any) -> None:
    """Submit a call and wait until it has ended. Cancelling the task cancels the call."""
    future = loop.create_future()
    running = sys.modules["asyncio.events"]._get_running_loop

    def wake(_: Call) -> None:
        if running() is loop:  # It ended on the loop's own thread, as answers of worker processes do.
            _set(future)
            return
        with contextlib.suppress(RuntimeError):  # The loop has been closed: nobody waits.
            loop.call_soon_threadsafe(_set, future)

    timer = None
    call.add_done_callback(wake)
    try:
        executor.submit(call)
        if call.deadline_ns:
            timer = loop.call_later(max(call.deadline_ns - time.monotonic_ns(), 0) / 1e9, call.expire)
        await future
    except BaseException:
        executor.cancel(call)
        raise
    finally:
        if timer is not None:
            timer.cancel()


@types.coroutine
def turn() -> Generator[None, None, None]:
    """Let the loop turn once: what else is ready runs first."""
    yield


def _set(future: Any) -> None:
    if not future.done():
        future.set_result(None)
