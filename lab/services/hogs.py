"""Light requests and hogs, as WSGI (`application`) and as ASGI (`asgi`).

/light          waits 10 ms, as for a network
/stand?ms=500   holds the GIL for so long and uses no CPU: a computation on a machine that never runs out of cores
/burn?ms=500    computes in pure Python; counted in iterations (`ITERATIONS_PER_MS`), so a starved process does not get
                less to do
everything else is answered at once

HOGS_SWITCH_INTERVAL_MS is handed to sys.setswitchinterval; unset = the interpreter's 5 ms.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any
from urllib.parse import parse_qs

_LIGHT_S = 0.010
_ITERATIONS_PER_MS = int(os.environ.get("ITERATIONS_PER_MS", "11000"))
# A guard against a typing error in a scenario.
_MOST_MS = 5_000.0
if interval_ms := os.environ.get("HOGS_SWITCH_INTERVAL_MS"):
    sys.setswitchinterval(float(interval_ms) / 1000)
# Calls through PyDLL keep the GIL.
_libc = ctypes.PyDLL(None)


def burn(iterations: int) -> int:
    """Pure Python that never blocks; its integers stay small, so each iteration costs the same."""
    state = 1
    for _ in repeat(None, iterations):
        state = (state * 31 + 7) & 0xFFFF
    return state


def stand(ms: float) -> None:
    """Nobody else in this process runs Python meanwhile."""
    _libc.usleep(int(ms * 1000))


def hog(path: str, query: str) -> None:
    """What a hog does before it is answered; nothing for other paths."""
    ms = min(_MOST_MS, float(parse_qs(query).get("ms", ["0"])[0]))
    if path == "/stand":
        stand(ms)
    elif path == "/burn":
        burn(int(ms * _ITERATIONS_PER_MS))


def application(environ: dict[str, object], start_response: Callable[..., object]) -> Iterable[bytes]:
    """One request."""
    path = str(environ["PATH_INFO"])
    if path == "/light":
        time.sleep(_LIGHT_S)
    hog(path, str(environ.get("QUERY_STRING", "")))
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "2"), ("X-Worker", str(os.getpid()))])
    return [b"ok"]


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    """One request, or the lifespan."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    if scope["path"] == "/light":
        await asyncio.sleep(_LIGHT_S)
    hog(scope["path"], scope["query_string"].decode())
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"2"), (b"x-worker", str(os.getpid()).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"ok"})
