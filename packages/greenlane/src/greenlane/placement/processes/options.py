"""How many workers, when they are replaced."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from greenlane.errors import SettingsError

__all__ = ["ProcessOptions", "check_range"]


@dataclasses.dataclass(frozen=True)
class ProcessOptions:
    """Checked when made. Raises SettingsError."""

    # Processes; 0 = the usable cores.
    workers: int = 0
    # Calls that may wait for a worker; one more is refused. Arbitrary: a call behind this many is late anyway.
    queue: int = 256
    # Calls after which a worker is replaced by a fresh one; 0 = never. For functions that leak.
    max_calls: int = 0
    # Time that a call whose caller has left (cancelled, or past its deadline) may go on before its worker is killed;
    # 0 = as long as it wants, to its next checkpoint or end.
    kill_after_s: float = 0.0
    # Called without arguments in each new worker before its first call: imports, models, caches. None = nothing.
    warm_up: Callable[[], Any] | None = None
    # Time that a worker's start and warm-up may take.
    start_timeout_s: float = 60.0

    def __post_init__(self) -> None:
        check_range("workers", self.workers, 0, 1024)
        check_range("queue", self.queue, 0, 1_000_000)
        check_range("max_calls", self.max_calls, 0, 1 << 60)
        check_range("kill_after_s", self.kill_after_s, 0, 86_400)
        check_range("start_timeout_s", self.start_timeout_s, 0.1, 86_400)

    @property
    def worker_count(self) -> int:
        """How many processes."""
        return self.workers or len(os.sched_getaffinity(0))


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise SettingsError if an option lies elsewhere."""
    if not low <= value <= high:
        rule = f"a number from {_plain(low)} to {_plain(high)}"
        raise SettingsError(name, value, rule, f"set {name} to a value in this range")


def _plain(number: float) -> str:
    return str(int(number) if number == int(number) else number)
