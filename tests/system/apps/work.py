"""CPU work that every application does."""

import time


def burn(cpu_ms: float = 6.0) -> int:
    """Spends this much CPU in pure Python; a value that can be checked."""
    end_ns = time.thread_time_ns() + int(cpu_ms * 1e6)
    total = 0
    while time.thread_time_ns() < end_ns:
        total = sum(range(101))
    return total


class Failure(Exception):
    """What /fail raises."""
