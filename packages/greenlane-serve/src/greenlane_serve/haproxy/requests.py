"""What a request must be to get through: lines of the public frontend. Pure.

HAProxy reads a message whole and writes it anew, so a worker never sees how it was framed. What is refused here is what
one of the two would read in another way than the other, or what would be too much.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from greenlane_serve.trust import Trust

__all__ = ["SOCKET", "first_lines", "global_lines", "lines"]

#: Whether a request asks for a WebSocket.
SOCKET: Final = "{ var(txn.socket) -m found }"
# HAProxy's default, and the least with HTTP/2.
_BUFFER_BYTES: Final = 16_384
# What is kept free of it for headers of our own.
_RESERVE_BYTES: Final = 1024
# Header lines that the front adds, and the request line.
_ADDED: Final = 16


def global_lines(trust: Trust) -> Iterator[str]:
    """Of the section `global`."""
    # A message that passes a gate is read twice, the second time with what was added.
    yield f"tune.http.maxhdr {trust.headers_max + _ADDED}"
    yield f"tune.http.logurilen {trust.target_max_bytes + 64}"
    if trust.head_max_bytes + _RESERVE_BYTES > _BUFFER_BYTES:
        yield f"tune.bufsize {trust.head_max_bytes + _RESERVE_BYTES}"


def first_lines() -> Iterator[str]:
    """Before the front adds anything: how much there is, and the target as workers get it."""
    yield "http-request set-var(txn.headers) req.fhdr_cnt"
    # An absolute target names its host again, and HAProxy has compared it with Host.
    yield "http-request set-uri %[pathq] if !HTTP_2.0 HTTP_URL_ABS { pathq -m found }"
    yield "http-request set-uri / if !HTTP_2.0 HTTP_URL_ABS  # it has none"


def lines(trust: Trust) -> Iterator[str]:
    """Refusals first, then the form in which a worker gets it."""
    # What follows a CONNECT was meant for somebody else, whatever it is answered: never another request.
    refused = 'content-type text/plain string "no proxy\\n" hdr connection close'
    yield f"http-request deny status 501 {refused} if METH_CONNECT"
    # Names with an underscore are the same as others to WSGI (`X_Forwarded_For`); deleted after all rules.
    yield "option http-restrict-req-hdr-names delete"
    if not trust.http2:
        yield "option disable-h2-upgrade"
    for status, why, condition in _refusals(trust):
        answer = f'content-type text/plain string "{why}\\n"'
        yield f"http-request deny status {status} {answer} if {condition}"
    yield from _upgrades()
    if trust.body_wait_s:
        milliseconds = max(1, round(trust.body_wait_s * 1000))
        yield f"http-request wait-for-body time {milliseconds}ms if !{SOCKET}  # who sends slowly holds no worker"


def _refusals(trust: Trust) -> Iterator[tuple[int, str, str]]:
    """Status, reason, condition."""
    coded = "{ req.fhdr(transfer-encoding) -m found }"
    yield 400, "no Host", "!HTTP_1.0 !{ req.fhdr(host) -m found }"
    yield 400, "* is for OPTIONS", "HTTP_URL_STAR !METH_OPTIONS"
    yield 400, "no path", "!HTTP_URL_SLASH !HTTP_URL_STAR !HTTP_URL_ABS"
    yield 400, "Transfer-Encoding in HTTP/1.0", f"HTTP_1.0 {coded}"
    yield 501, "a transfer coding other than chunked", f"{coded} !{{ req.fhdr(transfer-encoding) -m str -i chunked }}"
    yield 501, "more than one transfer coding", "{ req.fhdr_cnt(transfer-encoding) gt 1 }"
    yield 414, f"request target over {trust.target_max_bytes} bytes", f"{{ pathq,length gt {trust.target_max_bytes} }}"
    yield 431, f"more than {trust.headers_max} headers", f"{{ var(txn.headers) -m int gt {trust.headers_max} }}"
    if trust.body_max_bytes:
        yield 413, f"body over {trust.body_max_bytes} bytes", f"{{ req.body_size gt {trust.body_max_bytes} }}"


def _upgrades() -> Iterator[str]:
    """A WebSocket or nothing: whoever is asked for h2c and says yes would be talked to past the front."""
    asks = "{ req.hdr(upgrade) -m str -i websocket } { req.hdr(connection) -m str -i upgrade }"
    yield f"http-request set-var(txn.socket) bool(true) if METH_GET {asks}"
    yield f"http-request del-header upgrade if !{SOCKET}"
    yield f"http-request set-header upgrade websocket if {SOCKET}"
    yield "http-request del-header http2-settings"
