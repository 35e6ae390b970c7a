"""What somebody would write who tunes `ProcessPoolExecutor` for arrays: a segment of shared memory, attached once, into
which the caller copies its array; the pool then carries a function and a shape. Results come back likewise, and are
copied out, since the segment is used again. The strongest rival that we know; one caller at a time.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

#: As much as the arena has, each way.
BYTES = 64 << 20

_attached: SharedMemory | None = None


class ByHand:
    """One worker, one segment: arguments in its first half, results in its second."""

    def __init__(self) -> None:
        self._memory = SharedMemory(create=True, size=2 * BYTES)
        context = multiprocessing.get_context("forkserver")
        self._pool = ProcessPoolExecutor(1, context, initializer=_attach, initargs=(self._memory.name,))

    async def place(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Call it in the worker; one argument that is an array goes by the segment."""
        loop = asyncio.get_running_loop()
        if not args or not isinstance(args[0], np.ndarray):
            return await loop.run_in_executor(self._pool, fn, *args)
        form = _put(self._memory, 0, args[0])
        result = await loop.run_in_executor(self._pool, _call, fn, form)
        return _array(self._memory, BYTES, *result).copy() if isinstance(result, tuple) else result

    def close(self) -> None:
        """End it, and remove the segment."""
        self._pool.shutdown()
        self._memory.close()
        self._memory.unlink()


def _attach(name: str) -> None:
    global _attached
    _attached = SharedMemory(name)


def _call(fn: Callable[..., Any], form: tuple[tuple[int, ...], str]) -> Any:
    assert _attached is not None
    result = fn(_array(_attached, 0, *form))
    return _put(_attached, BYTES, result) if isinstance(result, np.ndarray) else result


def _put(memory: SharedMemory, offset: int, array: Any) -> tuple[tuple[int, ...], str]:
    form = array.shape, array.dtype.str
    _array(memory, offset, *form)[...] = array
    return form


def _array(memory: SharedMemory, offset: int, shape: tuple[int, ...], kind: str) -> Any:
    return np.ndarray(shape, kind, memory.buf, offset)
