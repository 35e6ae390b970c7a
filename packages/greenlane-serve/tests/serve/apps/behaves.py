"""An ASGI application that shows what a front does: streams, WebSockets, headers, and what is left of a deadline.

`/stream?N` sends N events, each after the client has told by the file `event-I` of HELD that it has the one before.
`/left` answers the time to its deadline in ms. All else answers what it sees, as JSON; a WebSocket says back what it
hears.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from greenlane import deadline

FOLDER = Path(os.environ["HELD"])


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        while (event := await receive())["type"] == "websocket.receive":
            await send({"type": "websocket.send", "text": event["text"]})
    elif scope["path"] == "/stream":
        await stream(int(scope["query_string"]), send)
    else:
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        await answer(scope, body, send)


async def stream(number: int, send: Any) -> None:
    headers = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    for event in range(number):
        while event and not (FOLDER / f"event-{event - 1}").exists():
            await asyncio.sleep(0.002)
        await send({"type": "http.response.body", "body": f"data: {event}\n\n".encode(), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def answer(scope: Any, body: bytes, send: Any) -> None:
    said = {
        "client": scope["client"][0], "scheme": scope["scheme"], "body": body.decode("latin-1"),
        "headers": {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]},
        "left_ms": deadline.remaining_ms(),
    }  # fmt: skip
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": json.dumps(said).encode()})
