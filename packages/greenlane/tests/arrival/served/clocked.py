"""Applications that answer with their own moments: `/hold/MS` holds the request that long, then says when it ran.

An answer is JSON: `pid`, `job` (its number in the recording), `began_ns` (the handler's first instruction) and
`ended_ns` (its last one), both of CLOCK_MONOTONIC, as the client's and the recording's moments are.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Iterable
from typing import Any

from greenlane import record


def hold_s(path: str) -> float:
    return int(path.rpartition("/")[2]) / 1000


def answer(began_ns: int) -> bytes:
    job = record.current()
    return json.dumps({"pid": os.getpid(), "job": job, "began_ns": began_ns, "ended_ns": time.monotonic_ns()}).encode()


def wsgi(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    began_ns = time.monotonic_ns()
    time.sleep(hold_s(environ["PATH_INFO"]))
    body = answer(began_ns)
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    began_ns = time.monotonic_ns()
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    await asyncio.sleep(hold_s(scope["path"]))
    body = answer(began_ns)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def quart() -> Any:
    from quart import Quart, Response

    app = Quart(__name__)

    @app.route("/hold/<int:ms>", methods=["GET", "POST"])
    async def hold(ms: int) -> Response:
        began_ns = time.monotonic_ns()
        await asyncio.sleep(ms / 1000)
        return Response(answer(began_ns), content_type="application/json")

    return app


def flask() -> Any:
    from flask import Flask, Response

    app = Flask(__name__)

    @app.route("/hold/<int:ms>", methods=["GET", "POST"])
    def hold(ms: int) -> Response:
        began_ns = time.monotonic_ns()
        time.sleep(ms / 1000)
        return Response(answer(began_ns), content_type="application/json")

    return app
