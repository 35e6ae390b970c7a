"""What a worker counts of orders, from its start on."""

from __future__ import annotations

__all__ = ["Totals"]


class Totals:
    """Counts; each is written on the thread of the channel's owner, but `retries_held`."""

    def __init__(self) -> None:
        self.received = 0
        self.started = 0
        self.done = 0
        self.failed = 0
        self.retried = 0
        self.dead = 0
        self.returned = 0
        self.revoked = 0
        self.acked_again = 0
        self.soft_limits = 0
        self.hard_limits = 0
        self.keyless = 0
        self.given_back = 0
        self.retries_held = 0
        self.counted = 0
