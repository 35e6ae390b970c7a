"""CPU work beside a loop: what is behind `greenlane.run` and `@greenlane.placed`.

A call's way: `Placement` says where it runs, an `Executor` runs it, and its caller waits meanwhile.

    placement                   one process's calls: where each runs, and what is learned from it
    functions                   what can be placed, its name, and what its owner has said
    rule, payload               one function: where its calls run, and why; what they weigh
    call, executor              one call; what runs calls: one interface
    native_threads              on a thread of this process
    processes/                  in worker processes, buffers in shared memory
    cluster/                    on a Ray cluster
    interpreter                 starts the processes of those two
    here                        who schedules the code that runs now
    on_loop, on_hub, on_thread  waiting for a call: asyncio, gevent, plain threads

Each name is imported when it is first used: a process that only waits in greenlets (`on_hub`) loads no placement.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from greenlane.placement.call import Call, State
    from greenlane.placement.executor import Executor, ExecutorStats
    from greenlane.placement.native_threads import NativeThreads
    from greenlane.placement.placement import Placement

__all__ = ["Call", "Executor", "ExecutorStats", "NativeThreads", "Placement", "State"]

_LAZY = {
    "Call": "call",
    "Executor": "executor",
    "ExecutorStats": "executor",
    "NativeThreads": "native_threads",
    "Placement": "placement",
    "State": "call",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
    return value
