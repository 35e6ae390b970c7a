"""uvicorn's HTTP protocol behind the front: no trailers in the head, no timer for each request."""

from __future__ import annotations

from collections import deque
from typing import Any, Final

__all__ = ["protocol"]

#: `headers` of a connection whose request has come: a trailer that is put there is gone.
_NO_HEAD: Final[Any] = deque(maxlen=0)


def protocol() -> Any:
    """What uvicorn's setting `http` gets: its protocol on httptools if that is installed, else its own choice (h11).

    The front half-closes a connection whose client it has ended for reading too slowly: what is still to be written
    is given up.

    With httptools a trailer field is reported like a header field, and becomes one: `X-Forwarded-Proto` after the body
    would be believed, although the front has never let it stand in the head.
    """
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "auto"

    class BehindFront(HttpToolsProtocol):
        def on_headers_complete(self) -> None:
            super().on_headers_complete()
            # What an upgrade is decided by stays readable; what is put there from now on is not part of the scope.
            self.headers = self.headers.copy() if self.parser.should_upgrade() else _NO_HEAD

        def on_response_complete(self) -> None:
            """Without a timer: who is idle is the front's to end."""
            if self.pipeline:
                super().on_response_complete()
                return
            self.server_state.total_requests += 1
            if not self.transport.is_closing():
                self.flow.resume_reading()

        def eof_received(self) -> None:
            self.transport.abort()

    return BehindFront
