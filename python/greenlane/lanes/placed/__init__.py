"""Functions that run beside the loop: a call, and what runs it."""

from greenlane.lanes.placed.call import Call, State
from greenlane.lanes.placed.executor import Executor, ExecutorStats

__all__ = ["Call", "Executor", "ExecutorStats", "State"]
