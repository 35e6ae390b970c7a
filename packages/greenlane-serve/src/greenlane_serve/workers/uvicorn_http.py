"""uvicorn's HTTP/1 protocol, without what a body's trailers may add to a request."""

from __future__ import annotations

from typing import Any

__all__ = ["protocol"]


def protocol() -> Any:
    """What uvicorn's setting `http` gets: its protocol on httptools if that is installed, else its own choice (h11).

    With httptools a trailer field is reported like a header field, and becomes one: `X-Forwarded-Proto` after the body
    would be believed, although the front has never let it stand in the head.
    """
    try:
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "auto"

    class WithoutTrailers(HttpToolsProtocol):
        def on_header(self, name: bytes, value: bytes) -> None:
            scope: Any = self.scope
            if "method" not in scope:  # set when the head is complete
                super().on_header(name, value)

    return WithoutTrailers
