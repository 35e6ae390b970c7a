"""A worker on the cluster: a Ray actor that runs one call at a time and hears meanwhile who has left.

It is started where Ray finds room, with this package and the functions' modules installed there.
"""

from __future__ import annotations

import contextvars
import os
import pickle
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from greenlane import deadline
from greenlane.errors import Cancelled, DeadlineExceeded
from greenlane.placement.processes import inside
from greenlane.placement.processes.answers import error_parcel, result_parcel
from greenlane.placement.processes.names import found
from greenlane.placement.processes.parcel import Parcel, unpack

__all__ = ["Actor"]


class _ActorCall:
    """The call that runs: what `greenlane.checkpoint()` asks."""

    def __init__(self, deadline_ns: int) -> None:
        self._deadline_ns = deadline_ns
        self.cancelled = False

    def check(self) -> None:
        """Raise if the caller has left."""
        if self._deadline_ns and time.monotonic_ns() >= self._deadline_ns:
            raise DeadlineExceeded()
        if self.cancelled:
            raise Cancelled()


class Actor:
    """The actor. `cancel` belongs to a concurrency group of its own: it is heard while `run` runs."""

    def __init__(self, main: Mapping[str, str], most_bytes: int, path: Sequence[str], node: str) -> None:
        """Take what a worker must know.

        Args:
            main: what multiprocessing finds the program's main module by; {} = there is none.
            most_bytes: largest result.
            path: where the program's modules are, on its own machine.
            node: Ray's name of that machine; "" = modules are found as Ray says.
        """
        import ray

        # A worker places nothing further.
        inside.WORKER = True
        if ray.get_runtime_context().get_node_id() == node:
            sys.path[:] = path
        self._main = main
        self._most_bytes = most_bytes
        self._call = 0
        self._running = _ActorCall(0)
        # Cancelled before it was begun: the two come on different threads.
        self._cancelled = 0

    def hello(self) -> int:
        """Give the process id."""
        return os.getpid()

    def cancel(self, call: int) -> None:
        """Let this call end at its next checkpoint."""
        self._cancelled = call
        if self._call == call:
            self._running.cancelled = True

    def run(self, call: int, left_ns: int, text: bytes, *buffers: Any) -> tuple[bool, bytes, list[pickle.PickleBuffer]]:
        """Run a call: gives whether it went well, and its result or error as a parcel. Never raises.

        Args:
            call: its number.
            left_ns: how long its caller still waits; 0 = for ever. A span: no two machines share a clock.
            text: function, arguments and named ones, pickled.
            buffers: the large parts.
        """
        due_ns = time.monotonic_ns() + left_ns if left_ns else 0
        self._running = _ActorCall(due_ns)
        self._call = call
        self._running.cancelled = self._cancelled == call
        well, parcel = self._outcome(text, buffers, due_ns)
        return well, parcel.pickle, [pickle.PickleBuffer(buffer) for buffer in parcel.buffers]

    def _outcome(self, text: bytes, buffers: Any, due_ns: int) -> tuple[bool, Parcel]:
        name = "?"
        try:
            if b"__main__" in text:
                self._know_main()
            fn, args, kwargs = unpack(text, [memoryview(buffer).toreadonly() for buffer in buffers])
            if type(fn) is str:
                name, fn = fn, found(fn)
            context = contextvars.copy_context()
            context.run(deadline.enter, self._running, due_ns)
            self._running.check()
            result = context.run(_called, fn, args, kwargs or {})
            return True, result_parcel(result, name, self._most_bytes)
        except BaseException as error:
            return False, error_parcel(error)

    def _know_main(self) -> None:
        """Import the program's main module under another name, where its file is here too."""
        main, self._main = self._main, {}
        if main:
            from multiprocessing import spawn

            spawn.prepare(dict(main))


def _called(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return fn(*args, **kwargs)
