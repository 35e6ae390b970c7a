"""Without a front nobody bounds the time that a client takes for its request's head: uvicorn does not.

Looks at all connections now and then instead of setting a timer for each request.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

__all__ = ["LateHeads"]

_ANSWER: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
# Looks within the longest time that is allowed: how late one is at most, as a share of it.
_LOOKS: Final = 8


class LateHeads:
    """Ends connections on which a head has been awaited for longer than `most_s`.

    A connection that is idle between two requests is uvicorn's own to end (its keep-alive time).
    """

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._next_s = 0.0
        # Connection -> the request before the one that is awaited, and since when.
        self._awaited: dict[Any, tuple[Any, float]] = {}

    def look(self, connections: Iterable[Any], now_s: float) -> None:
        """Look, if it is time to; of uvicorn's protocols."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._most_s / _LOOKS
        before, self._awaited = self._awaited, {}
        for one in list(connections):
            cycle = getattr(one, "cycle", one)  # a WebSocket has none
            idle = getattr(one, "timeout_keep_alive_task", None) is not None
            if idle or not (cycle is None or getattr(cycle, "response_complete", False)):
                continue
            known = before.get(one)
            since_s = known[1] if known is not None and known[0] is cycle else now_s
            if now_s - since_s > self._most_s:
                one.transport.write(_ANSWER)
                one.transport.close()
            else:
                self._awaited[one] = cycle, since_s
