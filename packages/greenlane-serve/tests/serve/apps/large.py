"""Applications whose answers are larger than all buffers, or begin and go on when the file `go_on` is in HELD.

A large answer adds a byte to the file `ended` when it has ended, whichever way.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PIECE = b"x" * 65_536
#: 256 MB.
PIECES = 4096
GO_ON = Path(os.environ["HELD"]) / "go_on"
ENDED = Path(os.environ["HELD"]) / "ended"


def wsgi(environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
    start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/large":
        try:
            for _ in range(PIECES):
                yield PIECE
        finally:
            end()
    else:
        yield b"first "
        while environ["PATH_INFO"] == "/silent" and not GO_ON.exists():
            time.sleep(0.01)
        yield b"last"


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await receive()
        await send({"type": "websocket.send", "text": "last"})
    if scope["type"] != "http":
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    if scope["path"] == "/large":
        try:
            for _ in range(PIECES):
                await send({"type": "http.response.body", "body": PIECE, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        finally:
            end()
    else:
        await send({"type": "http.response.body", "body": b"first ", "more_body": True})
        while scope["path"] == "/silent" and not GO_ON.exists():
            await asyncio.sleep(0.01)
        await send({"type": "http.response.body", "body": b"last"})


def end() -> None:
    with ENDED.open("a") as file:
        file.write(".")
