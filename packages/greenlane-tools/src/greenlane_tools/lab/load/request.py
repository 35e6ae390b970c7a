"""The bytes of one request, in three parts: the amount of work stands between the first and the last."""

from __future__ import annotations

from typing import NamedTuple

from greenlane.errors import SettingsError
from greenlane_tools.lab.load.plan import Stream

__all__ = ["Request", "request"]


class Request(NamedTuple):
    """What is sent is `before`, then `mark` and the amount if there is one, then `after`."""

    before: bytes
    mark: bytes
    after: bytes


def request(stream: Stream) -> Request:
    """The request of a stream.

    Raises:
        SettingsError: a part of it cannot stand in an HTTP/1.1 head.
    """
    lines = [f"{name}: {value}" for name, value in _headers(stream).items()]
    for name, text in [("method", stream.method), ("path", stream.path), *(("headers", line) for line in lines)]:
        _check(stream, name, text, spaces=name == "headers")
    mark = f"{'&' if '?' in stream.path else '?'}{stream.work.parameter}=" if stream.work else ""
    after = "\r\n".join([" HTTP/1.1", *lines, "", ""]).encode("latin-1") + stream.body
    return Request(f"{stream.method} {stream.path}".encode("latin-1"), mark.encode("latin-1"), after)


def _headers(stream: Stream) -> dict[str, str]:
    """Ours first; the stream's own take their place, whatever their case."""
    host = "localhost" if stream.address.startswith("unix:") else stream.address
    headers = {"Host": host, "Connection": "keep-alive" if stream.connections == "keep-alive" else "close"}
    if stream.body or stream.method in ("POST", "PUT", "PATCH"):
        headers["Content-Length"] = str(len(stream.body))
    given = {name.lower() for name in stream.headers}
    return {name: value for name, value in headers.items() if name.lower() not in given} | dict(stream.headers)


def _check(stream: Stream, name: str, text: str, *, spaces: bool) -> None:
    forbidden = "\r\n\0" if spaces else "\r\n\0 "
    if not text or any(letter in forbidden for letter in text) or not text.isascii():
        rule = "ASCII text without line ends" + ("" if spaces else " and spaces")
        raise SettingsError(f"{stream.name}.{name}", text, rule, "percent-encode it", attempted="make the requests")
