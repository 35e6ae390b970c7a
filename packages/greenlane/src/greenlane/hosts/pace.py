"""How long a client may still be waited for: a bound on one wait, and on the rate."""

from __future__ import annotations

__all__ = ["Pace"]


class Pace:
    """Of one message. Counts only time in which somebody waited for the client, not the application's own.

    Bytes give back the time that their least rate allows, but never more than `timeout_s`: a client that was fast
    cannot be slow for longer afterwards.

    Args:
        timeout_s: longest wait for a piece, and what a client may fall behind the rate.
        bytes_per_s: least rate; 0 = any.
    """

    __slots__ = ("_bytes_per_s", "_timeout_s", "left_s")

    def __init__(self, timeout_s: float, bytes_per_s: int) -> None:
        self._timeout_s = timeout_s
        self._bytes_per_s = bytes_per_s
        #: Longest wait for the next piece; 0 or less = the client is too slow.
        self.left_s = timeout_s

    def took(self, size_bytes: int, waited_s: float) -> None:
        """Note a piece and what it was waited for."""
        if self._bytes_per_s:
            self.left_s = min(self._timeout_s, self.left_s - waited_s + size_bytes / self._bytes_per_s)
