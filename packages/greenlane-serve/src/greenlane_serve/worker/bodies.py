"""Bounds of a request's body that only its reader can hold: size, where the front was told none, and pace.

The front refuses by Content-Length; a chunked body, or one of HTTP/2, may have none. And the front waits for the first
part of a body only; for the rest a worker waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from greenlane.hosts.pace import Pace

_TOO_LARGE: Final = (413, b"request body too large\n")
_TOO_SLOW: Final = (408, b"request body too slow\n")


@dataclass(frozen=True)
class Bounds:
    """0 = none."""

    most_bytes: int = 0
    # Between two pieces, and as a mean after the first `timeout_s`. ASGI only: our gunicorn worker has its own.
    timeout_s: float = 0.0
    bytes_per_s: int = 0


def wsgi(application: Any, bounds: Bounds) -> Any:
    """The application, whose bodies end with an error over the bound; what it then answers becomes 413."""
    if not bounds.most_bytes:
        return application

    def called(environ: dict[str, Any], start_response: Any) -> Any:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length <= bounds.most_bytes and "HTTP_TRANSFER_ENCODING" not in environ:
            return application(environ, start_response)
        body = environ["wsgi.input"] = _Input(environ["wsgi.input"], bounds.most_bytes)

        def start(status: str, headers: Any, exc_info: Any = None) -> Any:
            return start_response("413 Content Too Large" if body.over else status, headers, exc_info)

        return application(environ, start)

    return called


class _Input:
    """`wsgi.input` with a bound."""

    def __init__(self, body: Any, most_bytes: int) -> None:
        self._body = body
        self._left = most_bytes
        self.over = False

    def read(self, *size: Any) -> bytes:
        return self._counted(self._body.read(*self._bounded(size)))

    def readline(self, *size: Any) -> bytes:
        return self._counted(self._body.readline(*self._bounded(size)))

    def readlines(self, hint: int = -1) -> list[bytes]:
        return list(self)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")

    def _bounded(self, size: tuple[Any, ...]) -> tuple[int]:
        """One byte more than may come tells that it is too much; never a whole body at once in memory."""
        asked = size[0] if size and size[0] is not None and size[0] >= 0 else self._left + 1
        return (min(int(asked), self._left + 1),)

    def _counted(self, piece: bytes) -> bytes:
        self._left -= len(piece)
        if self._left < 0:
            self.over = True
            raise OSError("the request's body is over body_max_mb")
        return piece


class Asgi:
    """The application with bounds on each body. Once a body breaks one it is answered, and the client is gone for it.

    Cost: some 1 us a request, and 4 us for each piece of a body.
    """

    def __init__(self, application: Any, bounds: Bounds) -> None:
        self._application = application
        self._bounds = bounds

    async def __call__(self, scope: Any, receive: Any, send: Any) -> Any:
        """Run one request."""
        if scope["type"] != "http" or not _has_body(scope["headers"]):
            return await self._application(scope, receive, send)
        reading = _Reading(self._bounds, receive, send)
        return await self._application(scope, reading.receive, reading.send)


def _has_body(headers: Any) -> bool:
    return any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in headers)


class _Reading:
    """Of one body."""

    def __init__(self, bounds: Bounds, receive: Any, send: Any) -> None:
        self._bounds = bounds
        self._pace = Pace(bounds.timeout_s, bounds.bytes_per_s)
        self._receive = receive
        self._send = send
        self._bytes = 0
        self._complete = False
        self._started = False
        self._refused = False

    async def receive(self) -> Any:
        """The next event; after a bound was broken only that the client is gone."""
        if self._refused:
            return {"type": "http.disconnect"}
        if self._complete:
            return await self._receive()
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(self._pace.left_s if self._bounds.timeout_s else None):
                event = await self._receive()
        except TimeoutError:
            return await self._refuse(*_TOO_SLOW)
        piece = event.get("body", b"")
        self._pace.took(len(piece), time.monotonic() - began_s)
        self._bytes += len(piece)
        if self._bounds.most_bytes and self._bytes > self._bounds.most_bytes:
            return await self._refuse(*_TOO_LARGE)
        self._complete = not event.get("more_body", False)
        return event

    @property
    def disconnected(self) -> bool:
        """What uvicorn knows of the client, for code that asks the owner of `send`."""
        return bool(getattr(getattr(self._send, "__self__", None), "disconnected", False))

    async def send(self, event: Any) -> None:
        """Pass it on, unless we have answered."""
        if self._refused:
            return
        self._started = True
        await self._send(event)

    async def _refuse(self, status: int, why: bytes) -> Any:
        self._refused = True
        if not self._started:
            length = (b"content-length", b"%d" % len(why))
            headers = [(b"content-type", b"text/plain"), length, (b"connection", b"close")]
            await self._send({"type": "http.response.start", "status": status, "headers": headers})
            await self._send({"type": "http.response.body", "body": why})
        return {"type": "http.disconnect"}
