"""One executor of cluster workers for many tests: to connect and to start a worker takes seconds."""

from __future__ import annotations

import dataclasses
from typing import Any

from greenlane.placement import Call, ExecutorStats, on_thread
from greenlane.placement.cluster.executor import RayExecutor
from greenlane.placement.cluster.options import ClusterOptions

__all__ = ["Lender", "Lent"]

_EVER = ("done", "failed", "cancelled", "shed")
USUAL = 100


class Lender:
    """Keeps the executor, until a borrower closes it."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._kept: RayExecutor | None = None

    def make(self, **options: Any) -> RayExecutor:
        """Make another one, with one worker unless said otherwise."""
        return RayExecutor(ClusterOptions(address=self.address, **{"workers": 1, "queue": USUAL, **options}))

    def warm(self, **options: Any) -> RayExecutor:
        """Make another one whose worker is there: on a busy machine that takes longer than tests wait."""
        executor = self.make(**options)
        on_thread.wait(executor, Call(int))
        return executor

    def lend(self) -> Lent:
        """Give the one that is kept."""
        if self._kept is None:
            self._kept = self.warm()
        return Lent(self, self._kept)

    def forget(self, executor: RayExecutor) -> None:
        """It is being closed: the next one is another."""
        if self._kept is executor:
            self._kept = None

    def close(self) -> None:
        """Close what is kept."""
        if self._kept is not None:
            self._kept.close(0)


class Lent:
    """An executor as if it were new."""

    def __init__(self, lender: Lender, executor: RayExecutor) -> None:
        self._lender = lender
        self.executor = executor
        self._before = executor.stats()

    def submit(self, call: Call) -> None:
        self.executor.submit(call)

    def cancel(self, call: Call) -> bool:
        return self.executor.cancel(call)

    def stats(self) -> ExecutorStats:
        now = self.executor.stats()
        return dataclasses.replace(now, **{name: getattr(now, name) - getattr(self._before, name) for name in _EVER})

    def close(self, seconds: float) -> None:
        self._lender.forget(self.executor)
        self.executor.close(seconds)
