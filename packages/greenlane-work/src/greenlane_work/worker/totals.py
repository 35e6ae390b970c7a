"""What a worker counts of orders, from its start on."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Totals"]


@dataclass(slots=True)
class Totals:
    """Counts; each is written on the thread of the channel's owner, but `retries_held` and those of calls."""

    received: int = 0
    started: int = 0
    done: int = 0
    failed: int = 0
    retried: int = 0
    dead: int = 0
    returned: int = 0
    revoked: int = 0
    acked_again: int = 0
    soft_limits: int = 0
    hard_limits: int = 0
    keyless: int = 0
    given_back: int = 0
    retries_held: int = 0
    counted: int = 0
    # Begun although an earlier attempt may have reached the other side, which could not be asked.
    calls_repeated: int = 0
    # Not called: the store knew the result, or the other side was asked and had it.
    calls_saved: int = 0
    calls_asked: int = 0
