"""Semaphores of `threading` and asyncio, asyncio's locks: which job waits for a place, and who holds it meanwhile.

A place belongs to the thread or task that took it, until that one releases it; released by another, it counts as held.
Attempts that do not wait, such as those of an executor for its idle threads, take no place.

Cost: 1 us a place within a job, 0.1 us outside of one.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from greenlane._native import Recorder, Resource
from greenlane.probes.patching import Patches
from greenlane.probes.resources import known_resource, resource_of

__all__ = ["place_asyncio", "place_threading"]

_recorder: Final = Recorder()


def place_threading(patches: Patches, module: Any) -> None:
    """Place the probes in `threading`."""
    patches.replace(module.Semaphore, "acquire", _acquire)
    for semaphore in (module.Semaphore, module.BoundedSemaphore):
        patches.replace(semaphore, "release", _release(lambda: threading.get_ident()))


def place_asyncio(patches: Patches, module: Any) -> None:
    """Place the probes in `asyncio.locks`."""
    from asyncio import current_task

    def task() -> int:
        try:
            return id(current_task())
        except RuntimeError:  # no loop runs
            return 0

    for limit, kind in ((module.Semaphore, "semaphore"), (module.Lock, "lock")):
        patches.replace(limit, "acquire", _acquire_awaited(task, kind))
        # A bounded one's calls it.
        patches.replace(limit, "release", _release(task))


def _describe(semaphore: Any) -> tuple[str, int]:
    name = f"{type(semaphore).__module__.partition('.')[0]}.{type(semaphore).__name__}"
    if not hasattr(semaphore, "_value"):
        return name, 1
    known = known_resource(semaphore)
    bound = getattr(semaphore, "_initial_value", None) or getattr(semaphore, "_bound_value", None)
    places = bound or semaphore._value + (known.holds() if known is not None else 0)
    return name, places


def _acquire(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def acquire(self: Any, blocking: bool = True, timeout: float | None = None) -> Any:
        if silent or not blocking or timeout == 0 or not _recorder.job():
            return original(self, blocking, timeout)
        resource = resource_of(self, "semaphore", _describe)
        wait = "" if self._value else "pool"
        asked_ns = resource.ask()
        try:
            taken = original(self, blocking, timeout)
        except BaseException:
            _end(resource, threading.get_ident(), asked_ns, wait, taken=False)
            raise
        _end(resource, threading.get_ident(), asked_ns, wait, taken=taken)
        return taken

    return acquire


def _acquire_awaited(task: Callable[[], int], kind: str) -> Callable[..., Any]:
    def make(original: Callable[..., Awaitable[Any]], silent: list[bool]) -> Callable[..., Any]:
        async def acquire(self: Any) -> Any:
            if silent or not _recorder.job():
                return await original(self)
            resource = resource_of(self, kind, _describe)
            full = self.locked()
            asked_ns = resource.ask()
            try:
                taken = await original(self)
            except BaseException:
                _end(resource, task(), asked_ns, wait if full else "", taken=False)
                raise
            _end(resource, task(), asked_ns, wait if full else "", taken=True)
            return taken

        return acquire

    wait = "lock" if kind == "lock" else "pool"
    return make


def _end(resource: Resource, key: int, asked_ns: int, wait: str, *, taken: bool) -> None:
    """The wait is over, if it was one: `wait` is its kind then."""
    if wait and asked_ns:
        _recorder.waited(wait, asked_ns, time.monotonic_ns())
    if taken:
        resource.take(key, asked_ns)
    else:
        resource.fail(asked_ns)


def _release(key: Callable[[], int]) -> Callable[..., Any]:
    def make(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
        def release(self: Any, *args: Any, **kwargs: Any) -> Any:
            known = None if silent else known_resource(self)
            if known is not None:
                known.give(key())
            return original(self, *args, **kwargs)

        return release

    return make
