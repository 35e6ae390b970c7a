"""asyncio and uvloop seen step by step: when a task could run, when it did, and what it had waited for.

A loop's `call_soon`, `call_soon_threadsafe` and `call_at` (uvloop: `call_later`) lead to us; they are the class's, so
loops that exist already are seen too. What goes into the loop's queue carries the moment at which it became ready:

- a future set by a task or a callback: when it was set; by another thread: when it called `call_soon_threadsafe`
- a timer: when it was due
- a descriptor: the kernel's stamp of the bytes that were read, or the return of the poll that found it. If that poll
  did not block: some moment since the one before (the recording keeps both ends)

Functions handed to threads (`run_in_executor` and `asyncio.to_thread` by `children`, anyio's and with it Starlette's
here) belong to the job that hands them over; until they start, it waits for the pool.

Seen as the loop's own work: callbacks of protocols and descriptors. Seen as its creator's: the first step of an eager
task (3.12+). A program whose loop class overrides `call_soon` and never calls its base's is not seen.

Cost: `python -m bench.costs`. Switched off it is 0.03 us a `call_soon`; uninstalled nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextvars import ContextVar
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder, Steps, calls_rescan
from greenlane.probes.children import placed
from greenlane.probes.patching import Patches, Place
from greenlane.probes.resources import resource_of
from greenlane.probes.semaphores import place_asyncio
from greenlane.probes.wrapping import Make

__all__ = ["JOB", "absent", "install", "installed", "uninstall"]

#: The job of the task that runs in this context, for tasks whose creation nobody saw. Hosts set it; 0 = none.
JOB: Final[ContextVar[int]] = ContextVar("greenlane_job", default=0)

#: Of a limiter without a limit, which is infinite.
_MOST_TOKENS: Final = 1 << 31

_recorder: Final = Recorder()


def install() -> None:
    """Place the probes; those of uvloop and anyio when they are imported. Idempotent."""
    Steps.follow(JOB)
    _patches.install()


def uninstall() -> None:
    """Put everything back as it was. Idempotent."""
    _patches.uninstall()


def installed() -> bool:
    """Whether the probes are in place."""
    return _patches.installed


def absent() -> tuple[str, ...]:
    """Names that the imported versions do not have although the probes ask for them."""
    return _patches.absent()


def _hook(name: str) -> Make:
    def make(original: Any, silent: list[bool]) -> Any:
        return Steps.hook(name, original, silent)

    return make


def _run_forever(original: Callable[[Any], None], _silent: list[bool]) -> Callable[[Any], None]:
    def run_forever(self: Any) -> None:
        # Libraries that were loaded since the start: libuv's reads are seen as everybody's are.
        calls_rescan()
        Steps.entered()
        try:
            original(self)
        finally:
            Steps.left()

    return run_forever


def _run_sync(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    async def run_sync_in_worker_thread(
        backend: Any, func: Any, args: Any, abandon_on_cancel: bool = False, limiter: Any = None
    ) -> Any:
        if not silent:
            tokens = limiter or backend.current_default_thread_limiter()
            full = tokens.borrowed_tokens >= tokens.total_tokens
            func = placed(func, resource_of(tokens, "threads", _tokens), full=full)
        return await original(backend, func, args, abandon_on_cancel, limiter)

    return run_sync_in_worker_thread


def _tokens(limiter: Any) -> tuple[str, int]:
    tokens = limiter.total_tokens
    return f"anyio's threads, {type(limiter).__name__}", int(tokens) if tokens < _MOST_TOKENS else 0


def _asyncio(patches: Patches, module: ModuleType) -> None:
    loop = module.BaseEventLoop
    for name in ("call_soon", "call_soon_threadsafe", "call_at"):
        patches.replace(loop, name, _hook(name))
    patches.replace(loop, "run_forever", _run_forever)
    _patch_loop(patches, loop)


def _patch_loop(patches: Patches, loop: Any) -> None:
    if sys.version_info >= (3, 12):
        # The only place that says that an eager task has been made.
        patches.replace(loop, "create_task", _hook("create_task"))


def _tasks(_patches: Patches, module: ModuleType) -> None:
    task = module._PyTask
    Steps.know_python_tasks(task._Task__step, task._Task__wakeup)


def _uvloop(patches: Patches, module: ModuleType) -> None:
    loop = module.loop.Loop  # the class in Cython, whose methods `uvloop.Loop` inherits
    for name in ("call_soon", "call_soon_threadsafe", "call_later"):
        patches.replace(loop, name, _hook(name))
    patches.replace(loop, "run_forever", _run_forever)
    _patch_loop(patches, loop)


def _anyio(patches: Patches, module: ModuleType) -> None:
    patches.replace(module.AsyncIOBackend, "run_sync_in_worker_thread", _run_sync)


_PLAN: Final[dict[str, Place]] = {
    "asyncio.base_events": _asyncio,
    "asyncio.tasks": _tasks,
    "asyncio.locks": place_asyncio,
    "uvloop": _uvloop,
    "anyio._backends._asyncio": _anyio,
}

_patches: Final = Patches(_PLAN)
