"""Synchronous code of ASGI frameworks on the thread that suits it: endpoints, dependencies, background tasks.

Starlette, FastAPI and Litestar hand it to anyio's worker threads, 40 of them that fight for the GIL. Here each such
function is learned by its name:

- one that computes for over `heavy_ms` and does not block goes to the heavy lane: one thread, in order, with others
  beside a long call, the interval short meanwhile
- everything else (short, blocking I/O, both mixed, too new to know) stays with anyio, on up to `threads` threads
  instead of 40 unless the application has set its own limit; there it is a job whose heavy phases take turns with the
  lane's. What is learned to be short (health, a response's serialization: it neither computes nor blocks for over
  `heavy_ms`) has some threads more: unless the application has set a lower limit, it never waits for the end of those
  that block or compute

Nothing runs on the loop's own thread but what `@greenlane.light` marks. What is called with a limiter of its own stays
as it is. As with anyio, a cancelled request waits for its function once that has begun: what it depends on must not be
cleaned up under it. Cost: some 10 us a call.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import weakref
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from greenlane.job import WEIGHT_MARK
from greenlane.placement import on_loop
from greenlane.placement.functions import name_of, plain
from greenlane.probes.children import inner
from greenlane.probes.patching import Patches
from greenlane.wiring import placed_calls

__all__ = ["place"]

#: Loop -> (anyio's limiter; ours for what goes beyond, or None; ours for what is short; what anyio raises when it is
#: full).
_limiters: Final[weakref.WeakKeyDictionary[Any, tuple[Any, Any, Any, Any]]] = weakref.WeakKeyDictionary()
#: anyio's own number of threads: an application that wants another one has said so, and may rely on having no more.
_ANYIO_THREADS: Final = 40
#: Threads that only what is short may have beside these. Arbitrary: at 4 ms a call 2,000 a second.
_SHORT_THREADS: Final = 8


def place(patches: Patches, module: ModuleType) -> None:
    """Take over what anyio runs on its threads."""
    patches.replace(module.AsyncIOBackend, "run_sync_in_worker_thread", _run_sync)


def _run_sync(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    import anyio

    async def run_sync_in_worker_thread(
        backend: Any, func: Callable[..., Any], args: Any, abandon_on_cancel: bool = False, limiter: Any = None
    ) -> Any:
        if silent or limiter is not None:
            return await original(backend, func, args, abandon_on_cancel=abandon_on_cancel, limiter=limiter)
        placement = placed_calls.placement()
        function = _function(func)
        name = name_of(function)
        if placement.mode(name) != "on":
            return await original(
                backend, placement.on_any_thread(func, name), args, abandon_on_cancel=abandon_on_cancel
            )
        if getattr(plain(function), WEIGHT_MARK, "") == "light":
            return func(*args)
        loop = asyncio.get_running_loop()
        if not placement.belongs_on_lane(name):
            limiter = _tokens(loop, anyio, short=placement.is_short(name))
            placed = placement.on_any_thread(func, name)
            return await original(backend, placed, args, abandon_on_cancel=abandon_on_cancel, limiter=limiter)
        call = placement.call(functools.partial(_as_worker, loop, func), args, name)
        if abandon_on_cancel:
            await on_loop.wait(placement.lane, call, loop)
        else:
            await on_loop.wait_out(placement.lane, call, loop, lambda: anyio.CancelScope(shield=True))
        return call.result()

    return run_sync_in_worker_thread


def _tokens(loop: Any, anyio: Any, *, short: bool) -> _Tokens | None:
    """Give what lets one more thread run; None = the application's own limiter."""
    found = _limiters.get(loop)
    if found is None:  # anyio's own search takes some 10 us
        default = anyio.to_thread.current_default_thread_limiter()
        beyond = placed_calls.placement().threads - _ANYIO_THREADS
        more = anyio.CapacityLimiter(beyond) if beyond > 0 else None
        found = _limiters[loop] = default, more, anyio.CapacityLimiter(_SHORT_THREADS), anyio.WouldBlock
    default, more, kept, full = found
    beside = kept if short else more if default.total_tokens == _ANYIO_THREADS else None
    if beside is None or default.total_tokens < _ANYIO_THREADS:
        return None
    return _Tokens(default, beside, full)


class _Tokens:
    """One token: anyio's own, which a program may count, or ours while all of those are borrowed."""

    __slots__ = ("_borrowed", "_default", "_full", "_more")

    def __init__(self, default: Any, more: Any, full: type[Exception]) -> None:
        self._borrowed, self._default, self._more, self._full = default, default, more, full

    async def __aenter__(self) -> None:
        try:
            self._default.acquire_nowait()
        except self._full:
            self._borrowed = self._more
            await self._more.acquire()

    async def __aexit__(self, *problem: object) -> None:
        self._borrowed.release()


def _function(func: Callable[..., Any]) -> Callable[..., Any]:
    """Give the application's function out of what a framework wraps around it."""
    found: Any = inner(func)
    while isinstance(found, functools.partial):
        # FastAPI: _run_sync_endpoint(function=..., arguments=...).
        found = found.keywords["function"] if "function" in found.keywords else found.func
    # A dependency with `yield`: the generator's, not that of all context managers.
    made_of = getattr(getattr(found, "__self__", None), "func", None)
    if inspect.ismethod(found) and found.__func__.__module__ == "contextlib" and callable(made_of):
        return made_of  # type: ignore[no-any-return]
    return found  # type: ignore[no-any-return]


def _as_worker(loop: Any, func: Callable[..., Any], *args: Any) -> Any:
    """Run `func` as anyio's threads do, so that it may call back into the loop (`anyio.from_thread`)."""
    with _claim(loop):
        return func(*args)


@contextlib.contextmanager
def _claim(loop: Any) -> Iterator[None]:
    from anyio._backends._asyncio import AsyncIOBackend
    from anyio._core import _eventloop

    claim = getattr(_eventloop, "claim_worker_thread", None)
    if claim is None:  # another anyio: `from_thread` needs its own threads there
        yield
        return
    with claim(AsyncIOBackend, loop):
        _eventloop.threadlocals.current_cancel_scope = None
        try:
            yield
        finally:
            with contextlib.suppress(AttributeError):
                del _eventloop.threadlocals.current_cancel_scope
