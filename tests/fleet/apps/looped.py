"""An ASGI application that says who answers; `/block` blocks its event loop."""

from __future__ import annotations

import os
import time
from typing import Any


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    if scope["path"] == "/block":
        time.sleep(0.3)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    said = f"{os.getpid()} {scope['client'][0]} {scope['scheme']}"
    await send({"type": "http.response.body", "body": said.encode()})
