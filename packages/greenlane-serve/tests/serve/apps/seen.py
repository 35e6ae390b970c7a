"""Applications that write down what they see of each request, a line of JSON each, into the file `seen` of HELD.

The line is written when the body has been read, or has failed. The answer is the request's id and target.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

FILE = Path(os.environ["HELD"]) / "seen"


def wsgi(environ: dict[str, Any], start_response: Any) -> list[bytes]:
    """gunicorn's view."""
    headers = {key[5:].lower().replace("_", "-"): value for key, value in environ.items() if key.startswith("HTTP_")}
    target = environ["PATH_INFO"] + ("?" + environ["QUERY_STRING"] if environ["QUERY_STRING"] else "")
    client = (environ["REMOTE_ADDR"], environ["wsgi.url_scheme"], environ["SCRIPT_NAME"])
    try:
        body, whole = environ["wsgi.input"].read(), True
    except OSError:
        body, whole = b"", False
    _write(environ["REQUEST_METHOD"], target, headers, body, whole, client)
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [_answer(headers, target)]


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    """uvicorn's view."""
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
    elif scope["type"] == "websocket":
        await _socket(scope, receive, send)
    else:
        await _request(scope, receive, send)


async def _request(scope: Any, receive: Any, send: Any) -> None:
    body, more, whole = b"", scope["path"] != "/early", True
    while more:
        event = await receive()
        whole = event["type"] == "http.request"
        body += event.get("body", b"")
        more = event.get("more_body", False)
    target = scope["path"] + ("?" + scope["query_string"].decode("latin-1") if scope["query_string"] else "")
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:  # as they are now: what came after the body would be here
        key = name.decode("latin-1")
        headers[key] = f"{headers[key]},{value.decode('latin-1')}" if key in headers else value.decode("latin-1")
    client = ((scope["client"] or ("",))[0], scope["scheme"], scope["root_path"])
    _write(scope["method"], target, headers, body, whole, client)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": _answer(headers, target)})


async def _socket(scope: Any, receive: Any, send: Any) -> None:
    """Says back what it hears, after the client's address, scheme and the worker's process id."""
    await receive()
    if scope["path"] == "/refused":
        await send({"type": "websocket.close"})
        return
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": f"{scope['client'][0]} {scope['scheme']} {os.getpid()}"})
    while (event := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": event.get("text") or event["bytes"].decode("latin-1")})


def _answer(headers: dict[str, str], target: str) -> bytes:
    return f"{headers.get('x-request-id')} {target}".encode("latin-1", "replace")


def _write(
    method: str, target: str, headers: dict[str, str], body: bytes, whole: bool, client: tuple[str, ...]
) -> None:
    seen = {
        "id": headers.get("x-request-id"), "method": method, "target": target, "host": headers.get("host", ""),
        "headers": headers, "body": body.decode("latin-1"), "whole": whole, "client": client,
    }  # fmt: skip
    with FILE.open("a") as file:
        file.write(json.dumps(seen) + "\n")
