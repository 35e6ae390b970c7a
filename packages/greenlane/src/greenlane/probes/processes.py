"""Pools of processes within jobs: who waits for a process, and whose calls they run meanwhile.

| pool | a call is given by | and ends when |
|---|---|---|
| `concurrent.futures.ProcessPoolExecutor` | `submit` | its future is done |
| `multiprocessing.pool.Pool` | `apply_async`, and with it `apply` | its result is set |

No process says when it begins a call, but each takes the oldest: with N processes, N calls run, and one that waits
begins when another ends. Calls from outside of jobs are not counted, and neither are those of `map`.

Cost: 3 us a call, of the 100 us and more that one takes.
"""

from __future__ import annotations

import contextlib
import itertools
import weakref
from collections import deque
from collections.abc import Callable
from types import ModuleType
from typing import Any, Final, NamedTuple

from greenlane._native import Recorder, Resource, Steps
from greenlane.probes.patching import Patches
from greenlane.probes.resources import resource_of

__all__ = ["place_futures", "place_multiprocessing"]

_recorder: Final = Recorder()
#: On a result of `apply_async`: what is to be called when it is set.
_END: Final = "_greenlane_end"
_numbers: Final = itertools.count(1)


class _Call(NamedTuple):
    number: int
    job: int
    asked_ns: int
    #: Of the application that gave it.
    line: int


class _Pool:
    """One of them. Two threads at a time may begin one call too many: nobody waits for a lock here."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._running: dict[int, _Call] = {}
        self._waiting: deque[_Call] = deque()

    def give(self, places: int) -> Callable[[], None]:
        """Count a call of the running job; gives what is to be called when it has ended. Never raises."""
        asked_ns = self._resource.ask() if len(self._running) >= places else 0
        call = _Call(next(_numbers), _recorder.job(), asked_ns, Resource.line())
        if asked_ns:
            self._waiting.append(call)
        else:
            self._begin(call)

        def end() -> None:
            if self._running.pop(call.number, None) is not None:
                self._resource.give(call.number)
                self._begin_next()
            elif call.asked_ns:  # it was cancelled, unless it has ended before
                with contextlib.suppress(ValueError):
                    self._waiting.remove(call)
                    self._resource.fail(call.asked_ns)

        return end

    def _begin_next(self) -> None:
        try:
            call = self._waiting.popleft()
        except IndexError:
            return
        before = _recorder.attach(call.job)
        Steps.pool_waited(call.asked_ns)
        self._begin(call)
        _recorder.attach(before)

    def _begin(self, call: _Call) -> None:
        self._running[call.number] = call
        self._resource.run(call.number, call.asked_ns, call.line)


_pools: Final[weakref.WeakKeyDictionary[Any, _Pool]] = weakref.WeakKeyDictionary()


def _pass_on(pool: Any, describe: Callable[[Any], tuple[str, int]]) -> Callable[[], None] | None:
    """The end of a call that is about to be given to `pool`; None outside of a job."""
    if not _recorder.job():
        return None
    try:
        known = _pools.get(pool)
        if known is None:
            known = _pools.setdefault(pool, _Pool(resource_of(pool, "processes", describe)))
        return known.give(describe(pool)[1])
    except Exception:  # a version that looks different
        return None


# --- concurrent.futures -----------------------------------------------------------------------------------------------


def place_futures(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `concurrent.futures.process`."""
    patches.replace(module.ProcessPoolExecutor, "submit", _submit)


def _submit(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def submit(self: Any, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        end = None if silent else _pass_on(self, _executor)
        if end is None:
            return original(self, fn, *args, **kwargs)
        try:
            future = original(self, fn, *args, **kwargs)
        except BaseException:
            end()
            raise
        future.add_done_callback(lambda _future: end())
        return future

    return submit


def _executor(pool: Any) -> tuple[str, int]:
    return type(pool).__name__, pool._max_workers


# --- multiprocessing --------------------------------------------------------------------------------------------------


def place_multiprocessing(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `multiprocessing.pool`."""
    for pool in list(_pools):
        if isinstance(pool, module.Pool):  # calls that have ended while there were no probes
            _pools.pop(pool, None)
    patches.replace(module.Pool, "apply_async", _apply)
    patches.replace(module.ApplyResult, "_set", _set)


def _apply(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def apply_async(self: Any, *args: Any, **kwargs: Any) -> Any:
        end = None if silent or not hasattr(self, "_pool") else _pass_on(self, _multiprocessing)
        if end is None:
            return original(self, *args, **kwargs)
        try:
            result = original(self, *args, **kwargs)
        except BaseException:
            end()
            raise
        setattr(result, _END, end)
        if result.ready():
            end()
        return result

    return apply_async


def _set(original: Callable[..., Any], _silent: list[bool]) -> Callable[..., Any]:
    def _set(self: Any, *args: Any) -> Any:
        end = getattr(self, _END, None)
        if end is not None:
            with contextlib.suppress(Exception):  # the pool's own thread would end
                end()
        return original(self, *args)

    return _set


def _multiprocessing(pool: Any) -> tuple[str, int]:
    return f"multiprocessing {type(pool).__name__}", pool._processes
