"""How many workers, how much memory, when they are replaced."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from typing import Any, Final

from greenlane.errors import SettingsError
from greenlane.placement.arena.memory import memory_limit_bytes

__all__ = ["ArenaOptions", "check_range"]

_MB: Final = 1 << 20
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


@dataclasses.dataclass(frozen=True)
class ArenaOptions:
    """Checked when made. Raises SettingsError."""

    # Processes; 0 = the usable cores.
    workers: int = 0
    # Calls that may wait for a worker; one more is refused. Arbitrary: a call behind this many is late anyway.
    queue: int = 256
    # Room for the arguments under way to a worker, and as much again for results that the parent still looks into. Only
    # pages that were written to cost memory. What finds no room goes the slow way (a memory file of its own).
    arena_mb: float = 64.0
    # Room for arrays that callers make with `ArenaExecutor.empty`, which workers see without a copy. Only pages that
    # were written to cost memory. What finds no room is an ordinary array, and copied.
    shared_mb: float = 64.0
    # Largest single payload, either way. Default arbitrary: a mistake rather than a call.
    payload_max_mb: float = 1024.0
    # Whether arrays arrive writable, in the worker and in the parent. They are the receiver's own either way.
    writable: bool = False
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
        check_range("arena_mb", self.arena_mb, 1, 1_000_000)
        check_range("shared_mb", self.shared_mb, 1, 1_000_000)
        check_range("payload_max_mb", self.payload_max_mb, 0.001, 1_000_000)
        check_range("max_calls", self.max_calls, 0, 1 << 60)
        check_range("kill_after_s", self.kill_after_s, 0, 86_400)
        check_range("start_timeout_s", self.start_timeout_s, 0.1, 86_400)
        limit = memory_limit_bytes()
        room = limit - self.shared_bytes
        if 2 * self.arena_bytes * self.worker_count > room:
            raise SettingsError(
                "arena_mb", self.arena_mb,
                f"at most {max(room, 0) / _MB / 2 / self.worker_count:.0f}: two for each of {self.worker_count} "
                f"workers beside shared_mb, in the {limit / _MB:.0f} MB of this machine or container",
                "lower arena_mb or workers, or raise the container's memory limit",
            )  # fmt: skip

    @property
    def worker_count(self) -> int:
        """How many processes."""
        return self.workers or len(os.sched_getaffinity(0))

    @property
    def arena_bytes(self) -> int:
        """Size of one arena, whole pages."""
        return -(-int(self.arena_mb * _MB) // _PAGE_BYTES) * _PAGE_BYTES

    @property
    def shared_bytes(self) -> int:
        """Room for shared arrays, whole pages."""
        return -(-int(self.shared_mb * _MB) // _PAGE_BYTES) * _PAGE_BYTES

    @property
    def payload_max_bytes(self) -> int:
        """Largest payload."""
        return int(self.payload_max_mb * _MB)


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise SettingsError if an option lies elsewhere."""
    if not low <= value <= high:
        rule = f"a number from {_plain(low)} to {_plain(high)}"
        raise SettingsError(name, value, rule, f"set {name} to a value in this range")


def _plain(number: float) -> str:
    return str(int(number) if number == int(number) else number)
