"""One application as ASGI and one as WSGI, each with a route for every trouble; `HEALTH` has the address of its health.

They know nothing of Greenlane but one line.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import os
import queue
import re
import sys
import time
from collections.abc import Iterator

import requests
from fastapi import FastAPI
from flask import Flask
from sqlalchemy import create_engine
from sqlalchemy.pool import QueuePool

import greenlane

greenlane.health(os.environ["HEALTH"])

asgi = FastAPI()
wsgi = Flask(__name__)
engine = create_engine("sqlite://", poolclass=QueuePool, pool_size=3, max_overflow=2, pool_timeout=60)
UPSTREAM = os.environ.get("UPSTREAM", "")


def compute_for(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        hashlib.scrypt(b"password", salt=b"salt", n=2**14, r=8, p=1)


@asgi.get("/health")
async def stock_health() -> str:
    return "ok"


@asgi.get("/loop")
async def loop() -> str:
    time.sleep(60)
    return "ok"


@asgi.get("/limiter")
def limiter() -> str:
    compute_for(60)
    return "ok"


@asgi.get("/executor")
async def executor() -> str:
    await asyncio.get_running_loop().run_in_executor(None, time.sleep, 60)
    return "ok"


@asgi.get("/connections")
def connections() -> str:
    with engine.connect():
        time.sleep(60)
    return "ok"


@asgi.get("/collector")
def collector() -> str:
    until = time.monotonic() + 60
    kept: list[list[int]] = [[] for _ in range(200_000)]
    while time.monotonic() < until:
        gc.collect()
        time.sleep(0.01)
    return str(len(kept))


@asgi.get("/hog")
def hog() -> str:
    return str(re.fullmatch("(a|aa)+", "a" * 39 + "b"))


@asgi.get("/burn")
def burn() -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        pass
    return "ok"


@wsgi.get("/health")
def stock_wsgi_health() -> str:
    return "ok"


@wsgi.get("/upstream")
def upstream() -> str:
    return requests.get(UPSTREAM, timeout=60).text


@wsgi.get("/stream")
def stream() -> Iterator[bytes]:
    for _ in range(1000):
        yield bytes(1_000_000)


@wsgi.get("/lock")
def lock() -> str:
    return queue.Queue[str]().get(timeout=60)


@wsgi.get("/burn")
def burn_wsgi() -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        pass
    return "ok"


if __name__ == "__main__":
    from aiohttp import web

    async def block(_request: web.Request) -> web.Response:
        time.sleep(60)
        return web.Response(text="ok")

    views = web.Application()
    views.router.add_get("/loop", block)
    web.run_app(views, host="127.0.0.1", port=int(sys.argv[1]), print=None)
