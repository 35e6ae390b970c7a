"""The application of docs/oncall.md, question 6: any will do."""

from __future__ import annotations

from collections.abc import Callable


def app(environ: dict[str, object], start_response: Callable[..., object]) -> list[bytes]:
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]
