"""The executors that the contract suite runs over. To add one: give it a name here, and what makes it."""

from __future__ import annotations

from collections.abc import Callable

from greenlane.lanes.arena.executor import ArenaExecutor
from greenlane.lanes.arena.options import ArenaOptions
from greenlane.lanes.placed import Executor, NativeThreads
from greenlane.policy import QueueRule


def _native_threads(most_waiting: int) -> Executor:
    return NativeThreads(QueueRule(threads=1, discipline="fifo", ageing_ns=0, most_waiting=most_waiting))


def _process_workers(most_waiting: int) -> Executor:
    return ArenaExecutor(ArenaOptions(workers=1, queue=most_waiting, arena_mb=8))


#: name -> makes it, with one worker and room for so many waiting calls. The test closes it.
EXECUTORS: dict[str, Callable[[int], Executor]] = {
    "native-threads": _native_threads,
    "process-workers": _process_workers,
}
