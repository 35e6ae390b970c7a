"""Queues: a `get` from an empty queue, a `put` into a full one and a `join` end a phase.

A queue is asked first, without its lock, whether the call would wait; if that changes a moment later the condition
inside is seen (`locks`). `queue.SimpleQueue` is an immutable C type: its name is bound to a subclass, so pools made
later (`ThreadPoolExecutor`) have it, and what was made before still counts as an instance.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from greenlane import phase
from greenlane.phase import Kind
from greenlane.probes.patching import Patches
from greenlane.probes.wrapping import when

if TYPE_CHECKING:
    import queue

__all__ = ["place"]

_QUEUE: Final = int(Kind.QUEUE)


def place(patches: Patches, module: ModuleType) -> None:
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
