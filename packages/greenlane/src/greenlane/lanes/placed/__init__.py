"""Functions that run beside the loop: a call, and what runs it."""

from greenlane.lanes.placed.call import Call, State
from greenlane.lanes.placed.executor import Executor, ExecutorStats
from greenlane.lanes.placed.native_threads import NativeThreads
from greenlane.lanes.placed.placement import Placement

__all__ = ["Call", "Executor", "ExecutorStats", "NativeThreads", "Placement", "State"]
