"""Locks and joins: a contended lock, a condition, an event, a semaphore, a barrier and a thread's end end a phase.

`threading.Lock` and `threading.RLock` become the native tracked locks, which end the phase by themselves when they are
contended and count what a thread holds (a phase that begins while its thread holds a lock never queues for a permit).
A lock made before, or through a name copied before, stays CPython's: a holder that stands still in it lends its permit.

`Condition` waits on a private lock of CPython's, so `Condition.wait` is wrapped. It returns with the condition's lock
held, where a phase would begin as "holds a lock". Whatever waits on a condition inside and returns *without* its lock
is therefore wrapped outside as well (event, semaphore, barrier, and `queues`, `futures`): the outermost pair counts,
so their next phase begins with the lock given back. They are asked first whether they would wait at all.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from operator import methodcaller
from types import ModuleType
from typing import Any

from greenlane import _native
from greenlane.phase import Kind
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import timed, when

__all__ = ["place"]


def place(patches: Patches, module: ModuleType) -> None:
    """Place the probes in `threading`."""
    patches.replace(module, "Lock", _tracked(_native.Lock))
    patches.replace(module, "RLock", _tracked(_native.RLock))
    patches.replace(module.Condition, "wait", timed(Kind.LOCK))
    patches.replace(module.Event, "wait", timed(Kind.LOCK, done=methodcaller("is_set")))
    # `with semaphore` calls `__enter__`, an alias that was taken of `acquire` when the class was defined.
    for name in ("acquire", "__enter__"):
        patches.replace(module.Semaphore, name, when(Kind.LOCK, _semaphore_waits))
    patches.replace(module.Barrier, "wait", timed(Kind.LOCK))
    patches.replace(module.Thread, "join", timed(Kind.FUTURE, done=_over))


def _tracked(lock: type) -> Callable[[Any, list[bool]], type]:
    return lambda _original, _silent: lock


def _semaphore_waits(self: threading.Semaphore, blocking: bool = True, timeout: float | None = None) -> bool:
    return blocking and (timeout is None or timeout > 0) and not self._value


def _over(self: threading.Thread) -> bool:
    # `_initialized` first: `is_alive` asserts it, and `join` has a better message.
    return not (self._initialized and self.is_alive())  # type: ignore[attr-defined]
