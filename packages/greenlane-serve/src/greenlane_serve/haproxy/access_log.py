"""The access log: one line of JSON for each request, written by the front, which alone sees them all. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from greenlane_serve.haproxy.words import word
from greenlane_serve.trust import Trust

__all__ = ["lines", "on_stderr", "target_lines"]

# HAProxy cuts a longer line off; a target and two headers fit.
_LINE_BYTES: Final = 16_384
_HEADER_BYTES: Final = 256
_ESCAPED: Final = "json(utf8ps)"
# Times in ms: until the head was there, in the queue, until the first byte of the answer, and all from the first byte
# of the request. -1 = it did not come so far. `ended` as in HAProxy's manual, "Session state at disconnection".
_TEXTS: Final = {
    "at": "%[date,utime(%Y-%m-%dT%H:%M:%SZ)]",
    "client": "%[src]",
    "method": "%HM",
    "target": f"%[var(txn.target),{_ESCAPED}]",
    "http": "%HV",
    "host": f"%[capture.req.hdr(0),{_ESCAPED}]",
    "agent": f"%[capture.req.hdr(1),{_ESCAPED}]",
    "lane": "%[var(txn.lane)]",
    "worker": "%b/%s",
    "retries": "%rc",
    "ended": "%ts",
}
_NUMBERS: Final = {
    "port": "%cp", "status": "%ST", "bytes_in": "%U", "bytes_out": "%B",
    "head_ms": "%TR", "queue_ms": "%Tw", "answer_ms": "%Tr", "total_ms": "%Ta",
}  # fmt: skip


def lines(trust: Trust) -> Iterator[str]:
    """Of the public frontend; nothing without a log, but for the request's id."""
    if trust.request_id_header:
        yield from _id(trust)
    if not trust.access_log:
        return
    raw = trust.access_log in ("stdout", "stderr")
    yield f"log {word(trust.access_log)} len {_LINE_BYTES} format {'raw' if raw else 'rfc3164'} local0"
    yield "option dontlognull  # who connects and says nothing"
    yield f"capture request header host len {_HEADER_BYTES}"
    yield f"capture request header user-agent len {_HEADER_BYTES}"
    yield "http-request set-var(txn.target) pathq"
    yield "http-request set-var(txn.target) url if HTTP_URL_STAR"
    texts = {"id": f"%[var(txn.id),{_ESCAPED}]", **_TEXTS} if trust.request_id_header else _TEXTS
    fields = [f'"{name}":"{what}"' for name, what in texts.items()]
    fields += [f'"{name}":{what}' for name, what in _NUMBERS.items()]
    yield f"log-format {word('{' + ','.join(fields) + '}')}"


def target_lines(trust: Trust, condition: str) -> Iterator[str]:
    """Of the public frontend: the target of what is answered before the other lines."""
    if trust.access_log:
        yield f"http-request set-var(txn.target) pathq if {condition}"


def on_stderr(text: str) -> bool:
    """Whether this configuration writes a line for each request to stderr."""
    return re.search(r"^\s*log stderr ", text, re.MULTILINE) is not None


def _id(trust: Trust) -> Iterator[str]:
    name = trust.request_id_header
    if trust.networks or trust.unix:
        plain = f"{{ req.hdr({name},-1) -m reg {word('^[A-Za-z0-9._:-]+$')} }}"
        yield f"http-request set-var(txn.id) req.hdr({name},-1) if {{ var(txn.proxied) -m found }} {plain}"
    yield "http-request set-var(txn.id) uuid() if !{ var(txn.id) -m found }"
    yield f"http-request set-header {name} %[var(txn.id)]"
