"""Waiting for a call on an event loop, asyncio's or uvloop's. Nothing here imports asyncio."""

from __future__ import annotations

import contextlib
import sys
import time
import types
from collections.abc import Callable, Generator
from typing import Any

from greenlane.placement.call import Call, State
from greenlane.placement.executor import Executor, hand

__all__ = ["turn", "wait", "wait_out"]


async def wait(executor: Executor, call: Call, loop: Any) -> None:
    """Submit a call and wait until it has ended. Cancelling the task cancels the call."""
    timer = None
    future = _ending(call, loop)
    try:
        hand(executor, call)
        if call.deadline_ns:
            timer = loop.call_later(max(call.deadline_ns - time.monotonic_ns(), 0) / 1e9, call.expire)
        await future
    except BaseException:
        executor.cancel(call)
        raise
    finally:
        if timer is not None:
            timer.cancel()


async def wait_out(
    executor: Executor, call: Call, loop: Any, shield: Callable[[], contextlib.AbstractContextManager[object]]
) -> None:
    """Submit a call and wait until it has ended, also when the task is cancelled after the call has begun.

    For functions whose caller cleans up after them: it must not while they run. `shield` keeps cancellation from what
    is inside, if the framework would repeat it.
    """
    future = _ending(call, loop)
    executor.submit(call)
    try:
        await future
    except GeneratorExit:  # The loop has ended under us.
        executor.cancel(call)
        raise
    except BaseException:
        if not call.withdraw():
            with shield():
                await _end_of(call, loop)
        raise


async def _end_of(call: Call, loop: Any) -> None:
    from asyncio import CancelledError  # Not at the top, where gevent may want to patch it first.

    while call.state is State.RUNNING:
        with contextlib.suppress(CancelledError):
            await _ending(call, loop)


def _ending(call: Call, loop: Any) -> Any:
    """Give a future that is set when the call ends."""
    future = loop.create_future()
    running = sys.modules["asyncio.events"]._get_running_loop

    def wake(_: Call) -> None:
        if running() is loop:  # It ended on the loop's own thread: at its deadline, or cancelled.
            _set(future)
            return
        with contextlib.suppress(RuntimeError):  # The loop has been closed: nobody waits.
            loop.call_soon_threadsafe(_set, future)

    call.add_done_callback(wake)
    return future


@types.coroutine
def turn() -> Generator[None, None, None]:
    """Let the loop turn once: what else is ready runs first."""
    yield


def _set(future: Any) -> None:
    if not future.done():
        future.set_result(None)
