"""uvicorn's HTTP protocol: no trailers in the head, no timer for each request, no client that reads for ever.

uvicorn bounds neither the time for a request's head nor that in which a client reads an answer. All connections are
looked at now and then instead of setting timers for each request.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from greenlane_serve.worker.bodies import Bounds

__all__ = ["LateClients", "Reading", "protocol"]

#: `headers` of a connection whose request has come: a trailer that is put there is gone.
_NO_HEAD: Final[Any] = deque(maxlen=0)
_ANSWER: Final = b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
# Looks within the shortest time that is allowed: how late one is at most, as a share of it.
_LOOKS: Final = 8


def protocol() -> Any:
    """What uvicorn's setting `http` gets: its protocol on httptools if that is installed, else its own choice (h11).

    With httptools a trailer field is reported like a header field, and becomes one: `X-Forwarded-Proto` after the body
    would be believed, although the front has never let it stand in the head.
    """
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "auto"

    class Protocol(HttpToolsProtocol):
        #: Of the last answer whose client did not keep up.
        reading: Reading | None = None

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

        def pause_writing(self) -> None:
            super().pause_writing()
            if self.reading is None or self.reading.cycle is not self.cycle:
                self.reading = Reading(self.cycle)
            self.reading.pause(self.transport.get_write_buffer_size(), time.monotonic())

        def resume_writing(self) -> None:
            super().resume_writing()
            if self.reading is not None:
                self.reading.resume(self.transport.get_write_buffer_size(), time.monotonic())

    return Protocol


class Reading:
    """How fast a client takes one answer, while its server waits for it."""

    __slots__ = ("_had_bytes", "_since_s", "_taken_bytes", "_waited_s", "cycle")

    def __init__(self, cycle: Any) -> None:
        #: Of which request.
        self.cycle = cycle
        self._taken_bytes = self._had_bytes = 0
        self._waited_s = 0.0
        # 0 = nobody waits now.
        self._since_s = 0.0

    def pause(self, left_bytes: int, now_s: float) -> None:
        """Note that the server waits until less is left."""
        self._had_bytes, self._since_s = left_bytes, now_s

    def resume(self, left_bytes: int, now_s: float) -> None:
        """Note that it goes on."""
        self._taken_bytes += self._had_bytes - left_bytes
        self._waited_s += now_s - self._since_s
        self._since_s = 0.0

    def too_slow(self, bounds: Bounds, left_bytes: int, now_s: float) -> bool:
        """Whether the client takes less than the least mean rate, after the time that it has before that counts."""
        if not self._since_s or not bounds.bytes_per_s:
            return False
        taken_bytes = self._taken_bytes + self._had_bytes - left_bytes
        return self._waited_s + now_s - self._since_s > bounds.timeout_s + taken_bytes / bounds.bytes_per_s


class LateClients:
    """Ends connections of clients that take less of an answer than `bounds` asks for.

    Without a front also those on which a head has been awaited for longer than `head_s`, or nothing for `idle_s`; the
    latter without a word. 0 = for ever.
    """

    def __init__(self, bounds: Bounds, head_s: float = 0.0, idle_s: float = 0.0) -> None:
        self._bounds = bounds
        self._head_s = head_s
        self._idle_s = idle_s
        self._pause_s = min(filter(None, (bounds.timeout_s, head_s, idle_s)), default=1.0) / _LOOKS
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
            reading = getattr(one, "reading", None)
            if reading is not None and reading.too_slow(self._bounds, one.transport.get_write_buffer_size(), now_s):
                one.transport.abort()
            elif self._head_s:
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
