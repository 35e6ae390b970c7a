"""A worker on the cluster: a Ray actor that runs one call at a time and hears meanwhile who has left.

It is started where Ray finds room, with this package and the functions' modules installed there.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Sequence
from typing import Any

from greenlane.placement.processes import inside
from greenlane.placement.processes.runner import Runner

__all__ = ["Actor"]


class Actor:
    """The actor. `cancel` belongs to a concurrency group of its own: it is heard while `run` runs."""

    def __init__(self, path: Sequence[str], main: Sequence[str], node: str) -> None:
        """Take where the program's modules are on its own machine, its main module (`Runner`), and Ray's name of it."""
        import ray

        # A worker places nothing further.
        inside.WORKER = True
        if ray.get_runtime_context().get_node_id() == node:
            sys.path[:] = path
        self._cancelled = 0
        self._runner = Runner(main, lambda: self._cancelled)

    def hello(self) -> int:
        """Give the process id."""
        return os.getpid()

    def cancel(self, call: int) -> None:
        """Let this call end at its next checkpoint, also if it has not begun: the two come on different threads."""
        self._cancelled = call

    def run(self, call: int, left_ns: int, text: bytes, *buffers: Any) -> tuple[int, bytes, list[pickle.PickleBuffer]]:
        """Run a call: gives RESULT or ERROR, and the parcel's parts. Never raises.

        Args:
            call: its number.
            left_ns: how long its caller still waits; 0 = for ever. A span: no two machines share a clock.
            text: function, arguments and named ones, pickled.
            buffers: the large parts.
        """
        due_ns = time.monotonic_ns() + left_ns if left_ns else 0
        parts = [text, [memoryview(buffer).toreadonly() for buffer in buffers]]
        kind, parcel = self._runner.outcome(call, due_ns, parts, names_main=b"__main__" in text)
        return kind, parcel.pickle, [pickle.PickleBuffer(buffer) for buffer in parcel.buffers]
