"""Waits inside the process and for other processes: sleep, locks, joins, queues, futures, children, signals.

Sleep: `sleep(0)` ends a phase, too. It does not block, but it is how code says "somebody else's turn" while it spins
for a result: kept out, a spinning permit holder would keep the permit from the very job that it waits for. The price is
one phase a spin, and the number of phases is capped.

Locks: `threading.Lock` and `threading.RLock` become the native tracked locks, which end the phase by themselves when
they are contended and count what a thread holds (a phase that begins while its thread holds a lock never queues for a
permit). A lock made before, or through a name copied before, stays CPython's: a holder that stands still in it lends
its permit.

`Condition` waits on a private lock of CPython's, so `Condition.wait` is wrapped. It returns with the condition's lock
held, where a phase would begin as "holds a lock". Whatever waits on a condition inside and returns *without* its lock
is therefore wrapped outside as well (event, semaphore, barrier, queue, future): the outermost pair counts, so their
next phase begins with the lock given back. They are asked first whether they would wait at all.

Queues: a queue is asked without its lock whether the call would wait; if that changes a moment later the condition
inside is seen. `queue.SimpleQueue` is an immutable C type: its name is bound to a subclass, so pools made later
(`ThreadPoolExecutor`) have it, and what was made before still counts as an instance.

Futures: `concurrent.futures.wait` and `as_completed` wait on a `threading.Event` without holding a lock, which is seen;
`executor.map` and `asyncio.run_coroutine_threadsafe(...).result()` come through `result`.

Other processes: a child's end, a signal, a file lock, a pipe of `multiprocessing`. Not wrapped, and why:

- `os.read`, `os.write`, file objects: nothing cheap tells a pipe from a file in the page cache, they are hot, and
  nearly all of them return at once. `Popen.communicate` and `subprocess.run` are seen; a bare `Popen.stdout.read()` is
  left to the permits' stand-still fallback.
- `multiprocessing`'s C semaphores (`Lock`, `Semaphore`): each instance holds its own C methods. The fallback again.
- `multiprocessing.connection.wait`, `Connection.poll`, `Process.join(timeout)` go through `selectors`, `Process.join()`
  through `os.waitpid`, `Pool` results through `threading.Event`: seen there.

A module that did `from time import sleep` before the probes were installed keeps the original, as with every function
here; the permits' stand-still fallback covers it (a holder whose CPU clock stands still lends its permit).
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Callable
from operator import methodcaller
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from greenlane import _native, phase
from greenlane.phase import Kind
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import always, timed, when

if TYPE_CHECKING:
    import queue
    import subprocess

__all__ = [
    "place_connection",
    "place_fcntl",
    "place_futures",
    "place_os",
    "place_queue",
    "place_signal",
    "place_subprocess",
    "place_synchronize",
    "place_threading",
    "place_time",
]

_SLEEP: Final = int(Kind.SLEEP)
_QUEUE: Final = int(Kind.QUEUE)
_WNOHANG: Final = os.WNOHANG
# Neither waits for anybody.
_TRY_OR_UNLOCK: Final = fcntl.LOCK_NB | fcntl.LOCK_UN


# --- sleep ------------------------------------------------------------------------------------------------------------


def place_time(patches: Patches, module: ModuleType) -> None:
    """Place the probe in `time`."""
    patches.replace(module, "sleep", _sleep)


def _sleep(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def sleep(seconds: Any, /) -> Any:
        if silent:
            return original(seconds)
        try:
            phase.leave(_SLEEP)
            return original(seconds)
        finally:
            phase.enter()

    return sleep


# --- locks and joins --------------------------------------------------------------------------------------------------


def place_threading(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `threading`."""
    patches.replace(module, "Lock", _tracked(_native.Lock))
    patches.replace(module, "RLock", _tracked(_native.RLock))
    patches.replace(module.Condition, "wait", timed(Kind.LOCK))
    patches.replace(module.Event, "wait", timed(Kind.LOCK, done=methodcaller("is_set")))
    # `with semaphore` calls `__enter__`, an alias that was taken of `acquire` when the class was defined.
    for name in ("acquire", "__enter__"):
        patches.replace(module.Semaphore, name, when(Kind.LOCK, _semaphore_waits))
    patches.replace(module.Barrier, "wait", timed(Kind.LOCK))
    patches.replace(module.Thread, "join", timed(Kind.FUTURE, done=_thread_is_over))


def _tracked(lock: type) -> Callable[[Any, list[bool]], type]:
    return lambda _original, _silent: lock


def _semaphore_waits(self: threading.Semaphore, blocking: bool = True, timeout: float | None = None) -> bool:
    return blocking and (timeout is None or timeout > 0) and not self._value


def _thread_is_over(self: threading.Thread) -> bool:
    # `_initialized` first: `is_alive` asserts it, and `join` has a better message.
    return not (self._initialized and self.is_alive())  # type: ignore[attr-defined]


# --- queues and futures -----------------------------------------------------------------------------------------------


def place_queue(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `queue`."""
    patches.replace(module.Queue, "get", _get)
    patches.replace(module.Queue, "put", _put)
    patches.replace(module.Queue, "join", when(Kind.QUEUE, _join_waits))
    patches.replace(module, "SimpleQueue", _simple_queue)


def _get(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def get(self: queue.Queue[Any], block: bool = True, timeout: float | None = None) -> Any:
        if silent or not block or (timeout is not None and timeout <= 0) or self._qsize():
            return original(self, block, timeout)
        try:
            phase.leave(_QUEUE)
            return original(self, block, timeout)
        finally:
            phase.enter()

    return get


def _put(original: Callable[..., Any], silent: list[bool]) -> Callable[..., Any]:
    def put(self: queue.Queue[Any], item: Any, block: bool = True, timeout: float | None = None) -> Any:
        size = self.maxsize
        if silent or not block or size <= 0 or (timeout is not None and timeout <= 0) or self._qsize() < size:
            return original(self, item, block, timeout)
        try:
            phase.leave(_QUEUE)
            return original(self, item, block, timeout)
        finally:
            phase.enter()

    return put


def _join_waits(self: queue.Queue[Any]) -> bool:
    return bool(self.unfinished_tasks)


def _simple_queue(original: Any, silent: list[bool]) -> type:
    class _Alike(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return super().__instancecheck__(instance) or (cls is made and isinstance(instance, original))

    class SimpleQueue(original, metaclass=_Alike):  # type: ignore[misc]
        __slots__ = ()
        __doc__ = original.__doc__

        def get(self, block: bool = True, timeout: float | None = None) -> Any:
            if silent or not block or timeout == 0 or not self.empty():
                return original.get(self, block, timeout)
            try:
                phase.leave(_QUEUE)
                return original.get(self, block, timeout)
            finally:
                phase.enter()

    made = SimpleQueue
    SimpleQueue.get.__doc__ = original.get.__doc__
    SimpleQueue.__module__, SimpleQueue.__qualname__ = "queue", "SimpleQueue"
    return SimpleQueue


def place_futures(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `concurrent.futures._base`."""
    for name in ("result", "exception"):
        patches.replace(module.Future, name, timed(Kind.FUTURE, done=methodcaller("done")))


# --- other processes --------------------------------------------------------------------------------------------------


def place_os(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `os`."""
    patches.replace(module, "wait", always(Kind.PROCESS))
    patches.replace(module, "waitpid", when(Kind.PROCESS, lambda pid, options, /: not options & _WNOHANG))
    patches.replace(module, "wait3", when(Kind.PROCESS, lambda options: not options & _WNOHANG))
    patches.replace(module, "wait4", when(Kind.PROCESS, lambda pid, options: not options & _WNOHANG))
    patches.replace(module, "waitid", when(Kind.PROCESS, lambda idtype, id, options, /: not options & _WNOHANG))


def place_signal(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `signal`."""
    for name in ("pause", "sigwait", "sigwaitinfo"):
        patches.replace(module, name, always(Kind.PROCESS))
    patches.replace(module, "sigtimedwait", when(Kind.PROCESS, lambda sigset, timeout, /: timeout > 0))


def place_fcntl(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `fcntl`: file locks between processes."""
    patches.replace(module, "flock", when(Kind.LOCK, _file_lock_waits))
    patches.replace(module, "lockf", when(Kind.LOCK, _file_lock_waits))


def place_subprocess(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `subprocess`: one phase end for a wait, which inside polls, sleeps and takes a lock."""
    patches.replace(module.Popen, "wait", timed(Kind.PROCESS, done=_reaped))
    patches.replace(module.Popen, "communicate", always(Kind.PROCESS))


def place_connection(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `multiprocessing.connection`.

    `_recv_bytes` and `_send_bytes` stand under every public call of a pipe, one for one, and leave the pickling
    outside: that is the job's own CPU work.
    """
    patches.replace(module.Connection, "_recv_bytes", always(Kind.PROCESS))
    patches.replace(module.Connection, "_send_bytes", always(Kind.PROCESS))


def place_synchronize(patches: Patches, module: ModuleType) -> None:
    """Place the probe in `multiprocessing.synchronize`; its Event and Barrier wait on its Condition."""
    patches.replace(module.Condition, "wait", timed(Kind.LOCK))


def _file_lock_waits(fd: Any, operation: int, *_more: Any) -> bool:
    return not operation & _TRY_OR_UNLOCK


def _reaped(self: subprocess.Popen[Any]) -> bool:
    return self.returncode is not None
