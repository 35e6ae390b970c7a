"""How long a body may still be waited for: a bound between two pieces, and on the mean rate."""

from __future__ import annotations

__all__ = ["Pace"]


class Pace:
    """Of one request's body. Counts only time in which somebody waited for the client, not the application's own.

    Args:
        timeout_s: longest wait for a piece, and what a client has before its mean rate counts.
        bytes_per_s: least mean rate after that; 0 = any.
    """

    __slots__ = ("_bytes", "_bytes_per_s", "_timeout_s", "_waited_s")

    def __init__(self, timeout_s: float, bytes_per_s: int) -> None:
        self._timeout_s = timeout_s
        self._bytes_per_s = bytes_per_s
        self._bytes = 0
        self._waited_s = 0.0

    def took(self, size_bytes: int, waited_s: float) -> None:
        """Note a piece and what it was waited for."""
        self._bytes += size_bytes
        self._waited_s += waited_s

    @property
    def left_s(self) -> float:
        """Longest wait for the next piece; 0 or less = the client is too slow."""
        if not self._bytes_per_s:
            return self._timeout_s
        return min(self._timeout_s, self._timeout_s + self._bytes / self._bytes_per_s - self._waited_s)
