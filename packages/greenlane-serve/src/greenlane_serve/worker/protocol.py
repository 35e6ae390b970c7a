"""uvicorn's HTTP protocol: no trailers in the head, no timer for each request; and, without a front, no late clients.

uvicorn does not bound the time for a request's head. All connections are looked at now and then instead of setting
timers for each request.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, Final

__all__ = ["LateClients", "protocol"]

#: `headers` of a connection whose request has come: a trailer that is put there is gone.
_NO_HEAD: Final[Any] = deque(maxlen=0)
_ANSWER: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
# Looks within the shortest time that is allowed: how late one is at most, as a share of it.
_LOOKS: Final = 8


def protocol(*, front: bool) -> Any:
    """What uvicorn's setting `http` gets: its protocol on httptools if that is installed, else its own choice (h11).

    The front half-closes a connection whose client it has ended for reading too slowly: what is still to be written
    is given up. Without a front a client may do so, and gets its answer.

    With httptools a trailer field is reported like a header field, and becomes one: `X-Forwarded-Proto` after the body
    would be believed, although the front has never let it stand in the head.
    """
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "auto"

    class Protocol(HttpToolsProtocol):
        def on_headers_complete(self) -> None:
            super().on_headers_complete()
            # What an upgrade is decided by stays readable; what is put there from now on is not part of the scope.
            self.headers = self.headers.copy() if self.parser.should_upgrade() else _NO_HEAD

        def on_response_complete(self) -> None:
            """Without a timer: who is idle is looked for (`LateClients`), or the front's to end."""
            if self.pipeline:
                super().on_response_complete()
                return
            self.server_state.total_requests += 1
            if not self.transport.is_closing():
                self.flow.resume_reading()

    class BehindFront(Protocol):
        def eof_received(self) -> None:
            self.transport.abort()

    return BehindFront if front else Protocol


class LateClients:
    """Ends connections on which a head has been awaited for longer than `head_s`, or nothing for `idle_s`.

    One that is idle between two requests is closed silently.
    """

    def __init__(self, head_s: float, idle_s: float) -> None:
        self._head_s = head_s
        self._idle_s = idle_s
        self._pause_s = min(head_s, idle_s) / _LOOKS
        self._next_s = 0.0
        # Connection -> the request before the one that is awaited, whether it is idle, and since when.
        self._awaited: dict[Any, tuple[Any, bool, float]] = {}

    def look(self, connections: Iterable[Any], now_s: float) -> None:
        """Look, if it is time to; of uvicorn's protocols."""
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._pause_s
        before, self._awaited = self._awaited, {}
        for one in list(connections):
            self._look_at(one, before.get(one), now_s)

    def _look_at(self, one: Any, known: tuple[Any, bool, float] | None, now_s: float) -> None:
        cycle = getattr(one, "cycle", one)  # a WebSocket has none
        timed = getattr(one, "timeout_keep_alive_task", None) is not None  # h11: uvicorn's own to end
        if timed or not (cycle is None or getattr(cycle, "response_complete", False)):
            return
        idle = getattr(one, "headers", None) is _NO_HEAD
        since_s = known[2] if known and known[0] is cycle and known[1] is idle else now_s
        if now_s - since_s > (self._idle_s if idle else self._head_s):
            if not idle:
                one.transport.write(_ANSWER)
            one.transport.close()
        else:
            self._awaited[one] = cycle, idle, since_s
