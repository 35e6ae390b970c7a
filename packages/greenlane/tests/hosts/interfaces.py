"""Applications of each interface that granian and daphne run: work, a failure, a stream, a WebSocket."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

import asyncio
import time

_TEXT = [("content-type", "text/plain")]


def wsgi(environ, start_response):
    time.sleep(0.02)
    if environ["PATH_INFO"] == "/boom":
        raise ValueError("boom")
    start_response("200 OK", _TEXT)
    return _pieces() if environ["PATH_INFO"] == "/stream" else [b"plain"]


def _pieces():
    for _ in range(3):
        time.sleep(0.02)
        yield b"piece "


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        for what in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{what}.complete"})
        return
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        return
    await asyncio.sleep(0.02)
    if scope["path"] == "/boom":
        raise ValueError("boom")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    if scope["path"] == "/stream":
        for left in (2, 1, 0):
            await asyncio.sleep(0.02)
            await send({"type": "http.response.body", "body": b"piece ", "more_body": left > 0})
    else:
        await send({"type": "http.response.body", "body": b"plain"})


async def rsgi(scope, protocol):
    if scope.proto == "ws":
        transport = await protocol.accept()
        await transport.receive()
        return
    await asyncio.sleep(0.02)
    if scope.path == "/boom":
        raise ValueError("boom")
    if scope.path == "/stream":
        transport = protocol.response_stream(200, _TEXT)
        for _ in range(3):
            await asyncio.sleep(0.02)
            await transport.send_str("piece ")
    else:
        protocol.response_str(200, _TEXT, "plain")
