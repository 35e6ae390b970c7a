"""Children of a job on other threads: what a job hands to a thread pool, or starts as a thread, works for that job.

Recording only. The worker threads of a pool belong to nobody, even if a job's `submit` starts them; what they run
belongs to its submitter's job, and its delay until it begins is a wait for the pool. Under gevent's monkey patch the
"threads" are greenlets, and the same holds for them.

Not seen: pools of other libraries that start their threads themselves and hand work over in queues of their own.

Cost: 0.6 us a `submit` and 0.3 us a thread's start within a job, 0.1 us outside of one.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final

from greenlane._native import Recorder, Resource, Steps
from greenlane.probes.patching import Patches, Place
from greenlane.probes.resources import resource_of
from greenlane.probes.semaphores import place_threading

__all__ = ["inner", "install", "placed", "uninstall"]

_recorder: Final = Recorder()
#: On a thread that was started within a job: that job.
_JOB: Final = "_greenlane_job"
#: What `concurrent.futures` calls pools without a name, before a number.
_UNNAMED: Final = "ThreadPoolExecutor"


def install() -> None:
    """Let children belong to their jobs from now on. Idempotent."""
    _patches.install()


def uninstall() -> None:
    """Put everything back. Idempotent."""
    _patches.uninstall()


def placed(func: Callable[..., Any], threads: Resource, *, full: bool) -> Callable[..., Any]:
    """Give `func` as a function that works for the job that runs now, whenever one of `threads` calls it.

    `full`: none of them is free now.
    """
    job = _recorder.job()
    if not job or _is_placed(func):
        return func
    return functools.partial(_run, job, time.monotonic_ns(), func, threads, threads.ask() if full else 0)


def inner(func: Callable[..., Any]) -> Callable[..., Any]:
    """Give what `placed` was given; anything else as it is."""
    return func.args[2] if _is_placed(func) else func  # type: ignore[attr-defined]


def _is_placed(func: Callable[..., Any]) -> bool:
    return isinstance(func, functools.partial) and func.func is _run


def _run(
    job: int,
    from_ns: int,
    func: Callable[..., Any],
    threads: Resource,
    asked_ns: int,
    *args: Any,
    **named: Any,
) -> Any:
    """Run `func` on this thread for `job`, which has waited for the thread since `from_ns`."""
    before = _recorder.attach(job)
    Steps.pool_waited(from_ns)
    thread = threading.get_ident()
    threads.run(thread, asked_ns, func)
    try:
        return func(*args, **named)
    finally:
        threads.give(thread)
        _recorder.attach(before)


def _submit(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def submit(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        if not silent and _recorder.job():
            threads = resource_of(self, "threads", _executor)
            fn = placed(fn, threads, full=_is_full(self, threads))
        return original(self, fn, *args, **kwargs)

    return submit


def _is_full(pool: Any, threads: Resource) -> bool:
    try:
        # It starts its threads one by one, and counts them late.
        count = pool._max_workers
        return threads.holds() >= count or (len(pool._threads) >= count and not pool._idle_semaphore._value)
    except Exception:  # a version that looks different
        return False


def _executor(pool: Any) -> tuple[str, int]:
    prefix, kind = pool._thread_name_prefix, type(pool).__name__
    # asyncio's own prefix, and the one of those that nobody has named.
    name = "asyncio's default executor" if prefix == "asyncio" else f"{kind} {prefix}"
    return kind if prefix.startswith(f"{_UNNAMED}-") else name, pool._max_workers


def _start(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def start(self: Any) -> Any:
        job = 0 if silent else _recorder.job()
        if job and getattr(getattr(self, "_target", None), "__module__", "") != "concurrent.futures.thread":
            setattr(self, _JOB, job)
        return original(self)

    return start


def _bootstrap(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def _bootstrap_inner(self: Any) -> Any:
        job = 0 if silent else getattr(self, _JOB, 0)
        if not job:
            return original(self)
        _recorder.attach(job)
        try:
            return original(self)
        finally:
            _recorder.attach(0)

    return _bootstrap_inner


def _threading(patches: Patches, module: ModuleType) -> None:
    # gevent puts a subclass there, which inherits them.
    for name, make in (("start", _start), ("_bootstrap_inner", _bootstrap)):
        owner = next((each for each in module.Thread.__mro__ if name in vars(each)), module.Thread)
        patches.replace(owner, name, make, optional=name != "start")
    place_threading(patches, module)


def _futures(patches: Patches, module: ModuleType) -> None:
    patches.replace(module.ThreadPoolExecutor, "submit", _submit)


_PLAN: Final[dict[str, Place | str]] = {
    "threading": _threading,
    "concurrent.futures.thread": _futures,
    "concurrent.futures.process": "greenlane.probes.processes:place_futures",
    "multiprocessing.pool": "greenlane.probes.processes:place_multiprocessing",
}

_patches: Final = Patches(_PLAN)
