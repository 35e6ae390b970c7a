"""What runs calls somewhere else: one interface for threads, processes and fleets.

`packages/greenlane/tests/placement/test_executor_contract.py` tests every implementation against this contract.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Protocol, runtime_checkable

from greenlane.placement.call import Call

__all__ = ["Executor", "ExecutorStats", "hand"]


@dataclasses.dataclass(frozen=True)
class ExecutorStats:
    """What an executor does now, and has done since it was made (in a forked child: since the fork)."""

    # Now: calls that wait, calls that run, threads or processes that run them.
    queued: int = 0
    running: int = 0
    workers: int = 0
    # Ever: calls that finished, that failed (their deadline included), that were cancelled, and that were refused.
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    shed: int = 0


@runtime_checkable
class Executor(Protocol):
    """Runs calls. All methods may be called on any thread."""

    def submit(self, call: Call) -> None:
        """Take a call; it ends, sooner or later, whatever happens to the worker that runs it. Never blocks.

        Raises:
            Overloaded: at once, when the bounded queue is full.
            PlacementError: it is closed, or the call cannot be placed here.
        """

    def cancel(self, call: Call) -> bool:
        """End a call for its caller; False = it has ended. One that waits never begins.

        One that runs goes on until its next checkpoint (a thread's) or is ended by its worker (a process's).
        """

    def stats(self) -> ExecutorStats:
        """Give counts; they need not be of one instant."""

    def close(self, seconds: float) -> None:
        """Refuse new calls, let those that run end for up to `seconds`, fail what waits. Blocks; idempotent."""


def hand(executor: Executor, call: Call) -> None:
    """Submit a call, and note in it when that was, if somebody learns from it."""
    executor.submit(call)
    if call.cost is not None:
        call.submitted_ns = time.monotonic_ns()
