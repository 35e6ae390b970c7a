"""What a loop does for a stage beside the stage's own coroutines: sockets that it reads, tasks that libraries begin.

A connection works for the stage in whose coroutine it was last written to: receiving, protocols and parsers, which are
in no coroutine, count for it. Where several requests share one, a read may count for another request's stage of the
same name: sums over requests are exact, those of one request are not. A task that is begun within a stage counts for it
to its end, as do those that it begins.
"""

from __future__ import annotations

import asyncio
import selectors
import time
from asyncio import selector_events
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any

from .steps import Steps, Takes

# Of whoever computes in this context; None = nobody asks.
_TAKES: ContextVar[Takes | None] = ContextVar("feed_takes_cpu", default=None)


@contextmanager
def counted(takes: Takes) -> Iterator[None]:
    """What is written to within it is read for `takes`, and tasks begun within it compute for it."""
    token = _TAKES.set(takes)
    try:
        yield
    finally:
        # A coroutine that is thrown away unfinished ends in another context.
        with suppress(ValueError):
            _TAKES.reset(token)


class CountingLoop(asyncio.SelectorEventLoop):
    """asyncio's own loop, with clocks. Cost: 2 us a read and a task's step, 0.2 us a write."""

    def __init__(self, selector: selectors.BaseSelector) -> None:
        super().__init__(selector)

    def create_task(self, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """As asyncio's."""
        context = options.get("context")
        takes = _TAKES.get() if context is None else context.get(_TAKES)
        if takes is None or not asyncio.iscoroutine(coro):
            return super().create_task(coro, **options)
        task = super().create_task(_driven(coro, takes), **options)
        # One that is cancelled before its first step would never be awaited, and Python would say so.
        task.add_done_callback(lambda _: coro.close())
        return task

    # asyncio has no public name for it; CPython 3.11 to 3.13 call it so.
    def _make_socket_transport(
        self, sock: Any, protocol: Any, waiter: Any = None, *, extra: Any = None, server: Any = None
    ) -> _Timed:
        return _Timed(self, sock, protocol, waiter, extra, server)


class _Timed(selector_events._SelectorSocketTransport):  # type: ignore[name-defined,misc]
    """asyncio's own transport, with a clock around each reading."""

    _takes: Takes | None = None

    def write(self, data: Any) -> None:
        self._takes = _TAKES.get()
        super().write(data)

    def writelines(self, data: Any) -> None:
        self._takes = _TAKES.get()
        super().writelines(data)

    def _read_ready(self) -> None:
        takes = self._takes
        if takes is None:
            super()._read_ready()
            return
        began_ns = time.thread_time_ns()
        try:
            super()._read_ready()
        finally:
            takes(time.thread_time_ns() - began_ns)


async def _driven(coroutine: Coroutine[Any, Any, Any], takes: Takes) -> Any:
    return await Steps(coroutine, takes)
