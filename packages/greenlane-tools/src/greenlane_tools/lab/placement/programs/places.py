"""How each contender places a call from an event loop, as its user would write it."""

from __future__ import annotations

import asyncio
import logging
import pickle
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final

from greenlane_tools.lab.environment import usable_cores
from greenlane_tools.lab.placement import work
from greenlane_tools.lab.placement.programs.job import end_all
from greenlane_tools.lab.placement.programs.result import PLACEMENTS, pinned

Function = Callable[..., Any]
Call = Callable[[], Awaitable[Any]]


async def opened(contender: str, fn: Function, args: tuple[Any, ...]) -> Call:
    """Start what the contender needs; gives what makes one call of `fn(*args)`, again and again."""
    if contender in PLACEMENTS:
        placed = pinned(contender, fn)
        return lambda: placed(*args)
    return await OPENED[contender](fn, args)


async def _inline(fn: Function, args: tuple[Any, ...]) -> Call:
    async def call() -> Any:
        found = fn(*args)
        await asyncio.sleep(0)
        return found

    return call


async def _to_thread(fn: Function, args: tuple[Any, ...]) -> Call:
    return lambda: asyncio.to_thread(fn, *args)


async def _to_thread_short(fn: Function, args: tuple[Any, ...]) -> Call:
    sys.setswitchinterval(0.0005)
    return lambda: asyncio.to_thread(fn, *args)


async def _process_pool(fn: Function, args: tuple[Any, ...]) -> Call:
    from concurrent.futures import ProcessPoolExecutor

    pool, loop = ProcessPoolExecutor(), asyncio.get_running_loop()
    return lambda: loop.run_in_executor(pool, fn, *args)


async def _process_pool_tuned(fn: Function, args: tuple[Any, ...]) -> Call:
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([work.__name__])
    pool, loop = ProcessPoolExecutor(usable_cores(), mp_context=context), asyncio.get_running_loop()

    async def call() -> Any:
        blob = pickle.dumps(args, 5)
        return pickle.loads(await loop.run_in_executor(pool, work.packed_call, fn, blob))

    return call


async def _loky(fn: Function, args: tuple[Any, ...]) -> Call:
    from loky import get_reusable_executor

    pool, loop = get_reusable_executor(), asyncio.get_running_loop()
    return lambda: loop.run_in_executor(pool, fn, *args)


async def _ray(fn: Function, args: tuple[Any, ...]) -> Call:
    import ray

    # Its sockets' names have to be short, and its files go with the run's folder.
    ray.init(
        num_cpus=usable_cores(), include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR,
        _temp_dir=str(Path.cwd() / "ray"),
    )  # fmt: skip
    signal.signal(signal.SIGTERM, end_all)  # Ray has put its own in its place, which leaves daemons behind.
    task = ray.remote(fn)

    async def call() -> Any:
        return await task.remote(*args)

    return call


#: By contender; ours are placed by `ours`, and `dirty` has a program of its own.
OPENED: Final[Mapping[str, Callable[[Function, tuple[Any, ...]], Awaitable[Call]]]] = {
    "inline": _inline,
    "to-thread": _to_thread,
    "to-thread-0.5ms": _to_thread_short,
    "process-pool": _process_pool,
    "process-pool-tuned": _process_pool_tuned,
    "loky": _loky,
    "ray": _ray,
}
