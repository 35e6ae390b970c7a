"""A FastAPI application with one endpoint of each kind that people mix in a process: it asks an upstream while it
awaits (`/trips`) or blocks (`/stops`), it computes in a synchronous endpoint (`/quote`), in a dependency (`/estimate`)
and in a background task (`/order`).

CPU is counted in iterations (`ITERATIONS_PER_MS` of the environment), so a starved process does not get less to do.
`GREENLANE=1` adds the one line, `SWITCH_INTERVAL_MS` sets the interpreter's interval instead.
"""

from __future__ import annotations

import http.client
import os
import sys
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import repeat

import aiohttp
from fastapi import BackgroundTasks, Depends, FastAPI

_ITERATIONS_PER_MS = int(os.environ.get("ITERATIONS_PER_MS", "11000"))
_UPSTREAM = os.environ.get("UPSTREAM", "127.0.0.1:8001")
_QUOTE_MS, _FEATURES_MS, _INVOICE_MS = 18, 6, 10

_here = threading.local()


def burn(iterations: int) -> int:
    """Pure Python that never blocks; its integers stay small, so each iteration costs the same."""
    state = 1
    for _ in repeat(None, iterations):
        state = (state * 31 + 7) & 0xFFFF
    return state


@asynccontextmanager
async def _session(app: FastAPI) -> AsyncIterator[None]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as app.state.session:
        yield


app = FastAPI(lifespan=_session)
if os.environ.get("GREENLANE"):
    from greenlane.hosts.asgi import Greenlane

    app.add_middleware(Greenlane)
if "SWITCH_INTERVAL_MS" in os.environ:
    sys.setswitchinterval(float(os.environ["SWITCH_INTERVAL_MS"]) / 1000)


async def _asked() -> str:
    async with app.state.session.get(f"http://{_UPSTREAM}/") as answer:
        return str(await answer.text())


def features() -> int:
    """What each estimate depends on."""
    return burn(_FEATURES_MS * _ITERATIONS_PER_MS)


def invoice() -> None:
    """What is done after an order has been answered."""
    burn(_INVOICE_MS * _ITERATIONS_PER_MS)


@app.get("/trips")
async def trips() -> dict[str, str]:
    """Wait for the upstream, and hardly anything else."""
    return {"trips": await _asked()}


@app.get("/stops")
def stops() -> dict[str, str]:
    """Wait likewise, with a client that blocks its thread."""
    if not hasattr(_here, "connection"):
        _here.connection = http.client.HTTPConnection(_UPSTREAM)
    _here.connection.request("GET", "/")
    return {"stops": _here.connection.getresponse().read().decode()}


@app.get("/quote")
def quote() -> dict[str, int]:
    """Compute."""
    return {"quote": burn(_QUOTE_MS * _ITERATIONS_PER_MS)}


@app.get("/estimate")
async def estimate(computed: int = Depends(features)) -> dict[str, str | int]:
    """Wait for the upstream, after a dependency that computes."""
    return {"trips": await _asked(), "features": computed}


@app.get("/order")
async def order(background: BackgroundTasks) -> dict[str, str]:
    """Wait for the upstream; compute once it has been answered."""
    background.add_task(invoice)
    return {"order": await _asked()}
