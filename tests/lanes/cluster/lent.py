"""One executor of cluster workers for many tests: to connect and to start a worker takes seconds."""

from __future__ import annotations

import dataclasses
from typing import Any

from greenlane.lanes.cluster.executor import RayExecutor
from greenlane.lanes.cluster.options import ClusterOptions
from greenlane.lanes.placed import Call, ExecutorStats

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

    def lend(self) -> Lent:
        """Give the one that is kept."""
        if self._kept is None:
            self._kept = self.make()
        return Lent(self, self._kept)

    def close(self, seconds: float = 0) -> None:
        """Close it; the next one is another."""
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.close(seconds)


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
        self.executor.close(seconds)
        self._lender.close()
