"""An ASGI application that says who answers; `/block` blocks its event loop, `/stop/hold?NAME` until it is let go.

Otherwise `/…/hold?NAME`, `/…/check?NAME`: as in `held`, awaiting; `/burn`, `/call?PORT`.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

from held import FOLDER, begin, burn, call

import greenlane


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    if scope["path"] == "/block":
        time.sleep(0.3)
    elif scope["path"] == "/burn":
        burn()
    elif scope["path"] == "/call":
        await asyncio.to_thread(call, int(scope["query_string"]))
    elif scope["path"].endswith(("/hold", "/check")):
        block = scope["path"].startswith("/stop")
        await hold(scope["query_string"].decode(), checks=scope["path"].endswith("/check"), block=block)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    said = f"{os.getpid()} {scope['client'][0]} {scope['scheme']}"
    await send({"type": "http.response.body", "body": said.encode()})


async def hold(name: str, *, checks: bool, block: bool) -> None:
    begin(name)
    try:
        while not (FOLDER / f"{name}.let_go").exists():
            time.sleep(0.002) if block else await asyncio.sleep(0.002)
            if checks:
                greenlane.checkpoint()
    except greenlane.Cancelled:
        (FOLDER / f"{name}.cancelled").touch()
        raise
    finally:
        (FOLDER / f"{name}.ended").touch()
