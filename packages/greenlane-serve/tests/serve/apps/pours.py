"""Applications that answer `/pour` with 40 MB in pieces, and anything else with one byte."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

PIECE = b"x" * 100_000
PIECES = 400


def wsgi(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", [])
    if environ["PATH_INFO"] != "/pour":
        yield b"x"
        return
    for _ in range(PIECES):
        yield PIECE


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    if scope["path"] != "/pour":
        await send({"type": "http.response.body", "body": b"x"})
        return
    for _ in range(PIECES):
        await send({"type": "http.response.body", "body": PIECE, "more_body": True})
    await send({"type": "http.response.body", "body": b""})
