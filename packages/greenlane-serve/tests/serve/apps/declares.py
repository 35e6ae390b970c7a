"""Applications that send ten bytes and declare as many as the query says; without a query, as many as they send."""

from __future__ import annotations

from typing import Any

PIECES = (b"01234", b"56789")


def wsgi(environ: dict[str, Any], start_response: Any) -> tuple[bytes, ...]:
    start_response("200 OK", [("Content-Length", environ["QUERY_STRING"] or "10")])
    return PIECES


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "http":
        return
    length = (b"content-length", scope["query_string"] or b"10")
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    for piece in PIECES:
        await send({"type": "http.response.body", "body": piece, "more_body": piece is not PIECES[-1]})
