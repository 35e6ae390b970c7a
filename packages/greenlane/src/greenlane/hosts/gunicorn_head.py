"""The head of a request as bytes: is it whole, is it hopeless, whose path is it?

Pure, and no parser: gunicorn's own parser reads the request and refuses what is wrong. This only decides *when* a
thread is given to it, so that a head which trickles in holds none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from gunicorn.util import unquote_to_wsgi_str

__all__ = [
    "ENDED",
    "HOPELESS",
    "PARTIAL",
    "Judge",
    "environ_of",
    "field",
    "is_bare",
    "judge_for",
    "method_and_target",
    "prefixes",
]

# What is to be done with the bytes of a head so far.
PARTIAL: Final = 0  # wait for more
ENDED: Final = 1  # the head is whole
HOPELESS: Final = 2  # the parser refuses it already, or it is none of ours: let the parser say so

# (bytes so far, how many of them were judged before, first request of the connection) -> PARTIAL, ENDED or HOPELESS
Judge = Callable[[bytes, int, bool], int]

_CR: Final = 13
_PROXY_V2: Final = b"\r\n\r\n\x00\r\nQUIT\n"
# gunicorn's own bounds where a limit is 0 or above them (gunicorn.http.message).
_LONGEST_LINE: Final = 8190
_MOST_FIELDS: Final = 32768


def judge_for(cfg: Any) -> Judge:
    """The judge for a gunicorn configuration: its protocol, its PROXY protocol and its limits."""
    if cfg.protocol == "uwsgi":
        return _judge_uwsgi
    line = cfg.limit_request_line
    line = _LONGEST_LINE if line < 0 else min(line, _LONGEST_LINE)
    fields = cfg.limit_request_fields
    fields = fields if 0 < fields <= _MOST_FIELDS else _MOST_FIELDS
    field = cfg.limit_request_field_size or _LONGEST_LINE
    http = _judge_http(line, line + fields * (field + 2) + 4)
    return http if cfg.proxy_protocol == "off" else _behind_proxy(http, cfg.proxy_protocol)


def method_and_target(head: bytes) -> tuple[bytes, bytes]:
    """Method and request-target of a head; empty when there is no such line."""
    parts = head[: head.find(b"\r\n")].split(b" ", 2)
    return (parts[0], parts[1]) if len(parts) == 3 else (b"", b"")


def field(head: bytes, name: bytes) -> str:
    """A header's value as the front of `greenlane serve` writes it; "" = it is not there. `name` in lower case."""
    key = b"\r\n" + name + b": "
    begin = head.find(key, 0, head.find(b"\r\n\r\n"))
    if begin < 0:
        return ""
    begin += len(key)
    return head[begin : head.find(b"\r\n", begin)].decode("latin-1")


def is_bare(head: bytes) -> bool:
    """Whether these bytes are a head and nothing else, and none of its body is to come."""
    lower = head.lower()
    return head.endswith(b"\r\n\r\n") and b"\r\ncontent-length:" not in lower and b"\r\ntransfer-" not in lower


def environ_of(head: bytes, headers: Sequence[str]) -> dict[str, str]:
    """The path and these headers of a head, as a WSGI environ has them; no path when the connection is to change hands.

    For requests that wait for a thread only: the parser reads them again.
    """
    wanted = {header.lower().encode("latin-1"): "HTTP_" + header.upper().replace("-", "_") for header in headers}
    method, target = method_and_target(head)
    path = unquote_to_wsgi_str(target.partition(b"?")[0].decode("latin-1"))
    environ = {"PATH_INFO": "" if method == b"CONNECT" else path}
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        name = name.lower()
        if not line:
            break
        if name == b"upgrade":
            environ["PATH_INFO"] = ""
        elif name in wanted:
            environ[wanted[name]] = value.strip(b" \t").decode("latin-1")
    return environ


def _judge_http(longest_line: int, longest_head: int) -> Judge:
    def judge(head: bytes, judged: int, _first: bool) -> int:
        if head.find(b"\r\n\r\n", max(judged - 3, 0)) >= 0:
            return ENDED
        news = head[judged - 1 :] if judged and head[judged - 1] == _CR else head[judged:]
        if len(head) > longest_head or news.count(b"\n") != news.count(b"\r\n"):
            return HOPELESS
        too_long = 0 < longest_line < len(head) - 2 and not 0 <= head.find(b"\r\n", 2) <= longest_line + 2
        return HOPELESS if too_long else PARTIAL

    return judge


def _behind_proxy(http: Judge, mode: str) -> Judge:
    """A judge that skips the PROXY header which may stand before a connection's first request."""

    def judge(head: bytes, judged: int, first: bool) -> int:
        if not first:
            return http(head, judged, False)
        start = _proxy_header(head, mode)
        return PARTIAL if start < 0 else http(head[start:], 0, False)

    return judge


def _proxy_header(head: bytes, mode: str) -> int:
    """Bytes of the PROXY header before the request; 0 = there is none, -1 = it is not whole."""
    if mode in ("v2", "auto") and head[:12] == _PROXY_V2[: len(head)]:
        size = 16 + int.from_bytes(head[14:16], "big") if len(head) >= 16 else len(head) + 1
        return size if len(head) >= size else -1
    if mode in ("v1", "auto") and head[:6] == b"PROXY "[: len(head)]:
        end = head.find(b"\r\n")
        # The longest legal line has 107 bytes; one that is longer is the parser's to refuse.
        return end + 2 if end >= 0 else -1 if len(head) <= 107 else 0
    return 0


def _judge_uwsgi(head: bytes, _judged: int, _first: bool) -> int:
    if len(head) < 4:
        return PARTIAL
    return ENDED if len(head) >= 4 + int.from_bytes(head[1:3], "little") else PARTIAL


def prefixes(paths: Sequence[str]) -> tuple[bytes, ...]:
    """What a GET or HEAD of one of these paths begins with: a cheap first test."""
    return tuple(method + path.encode("latin-1") for path in paths if path for method in (b"GET ", b"HEAD "))
