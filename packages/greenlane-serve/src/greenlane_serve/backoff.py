"""How long the next try waits after failures in a row. Pure: time comes in."""

from __future__ import annotations

from typing import Final

__all__ = ["Backoff"]

# The first death costs no wait: most are a kill, and the successor is needed now.
_FIRST_S: Final = 0.25
_MOST_S: Final = 30.0
# A worker that has served so long before it died is no failure to start.
_WELL_S: Final = 2.0


class Backoff:
    """0, then 0.25 s, 0.5 s, 1 s … 30 s. A death after 2 s of service or more begins anew."""

    def __init__(self) -> None:
        self.failures = 0
        # No try before this.
        self.until_s = 0.0

    def failed(self, now_s: float, served_s: float) -> float:
        """Note a failure after `served_s` of service; the wait until the next try, in s."""
        self.failures = 1 if served_s >= _WELL_S else self.failures + 1
        wait_s = 0.0 if self.failures == 1 else min(_MOST_S, _FIRST_S * 2 ** (self.failures - 2))
        self.until_s = now_s + wait_s
        return wait_s

    def may_try(self, now_s: float) -> bool:
        """Whether the wait is over."""
        return now_s >= self.until_s
