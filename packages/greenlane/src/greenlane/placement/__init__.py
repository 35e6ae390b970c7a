"""Functions that run beside the loop: a call, and what runs it. Each name is imported when it is first used.

A process that only waits in greenlets (`on_hub`) loads no placement.
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
