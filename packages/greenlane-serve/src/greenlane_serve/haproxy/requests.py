"""The client's address, what a request must be to get through, and the line that is logged. Pure.

The peer's address is the client's, unless the peer is a trusted proxy: then the last entry of its X-Forwarded-For is,
and so on back through further trusted ones. An entry that is no address ends the walk: what stands before it was
written by somebody unknown. An application gets one address and one scheme, whatever was sent. `Forwarded` (RFC 7239)
is believed of nobody: a proxy that passes one on without writing it would let anybody in, and HAProxy reads it only
from 2.8 on.

HAProxy reads a message whole and writes it again, and workers never see how it came. What is refused here is what
one of the two would read in another way than the other, or what would be too much.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from greenlane_serve.haproxy.site import word
from greenlane_serve.trust import Trust

#: Whether the client's own connection is TLS, as far as is known.
SECURE: Final = "var(txn.secure)"
#: When our first front had the request, in us since 1970; only where it is asked for.
START: Final = "txn.start"
_PROXIED: Final = "{ var(txn.proxied) -m found }"
# Proxies in a row that are looked behind. Arbitrary: an edge, a balancer, an ingress, a sidecar, and one to spare.
_HOPS: Final = 5
# What fronts write: us, and ms or s.ms. An older time is not our wait, as for the workers.
_STARTS: Final = (("[0-9]{16}", 1), ("[0-9]{10}[.]?[0-9]{3}", 1000))
_OLDEST_US: Final = 600_000_000
# What applications and servers commonly believe: how names begin or end, and names. SCRIPT_NAME and the like have an
# underscore, and such names never get through. One line each, since a regular expression on every name costs 20 us.
_FORGEABLE_PARTS: Final = (
    ("x-forwarded", "beg"), ("x-original-", "beg"), ("cf-connecting-ip", "beg"), ("x-real-", "beg"),
    ("-client-ip", "end"),
)  # fmt: skip
#: Those in use that begin or end so, except what a front sets itself.
FORGEABLE_BEGUN: Final = (
    "x-forwarded-host", "x-forwarded-port", "x-forwarded-prefix", "x-forwarded-server", "x-forwarded-ssl",
    "x-forwarded-scheme", "x-forwarded-protocol", "x-forwarded-uri", "x-forwarded-by", "x-forwarded-user",
    "x-original-url", "x-original-uri", "x-original-host", "x-original-for", "x-original-proto", "x-original-method",
    "cf-connecting-ip", "cf-connecting-ipv6", "x-real-ip", "x-real-port", "x-client-ip", "x-cluster-client-ip",
    "true-client-ip", "fastly-client-ip",
)  # fmt: skip
FORGEABLE: Final = (
    "forwarded", "x-scheme", "x-url-scheme", "x-script-name", "x-rewrite-url", "front-end-https",
)  # fmt: skip


#: Whether a request has one of the headers that few have. Each line about them costs more than this condition.
RARE: Final = "{ var(txn.rare) -m found }"
_RARE_TOO: Final = ("transfer-encoding", "upgrade", "http2-settings")


def rare_line(trust: Trust) -> str:
    """Looks once for all headers that the lines below look for."""
    begun = "|".join(["x-greenlane-", *(part for part, where in _FORGEABLE_PARTS if where == "beg")])
    ended = "|".join(part for part, where in _FORGEABLE_PARTS if where == "end")
    whole = "|".join([*FORGEABLE, *trust.deadline_headers, *_RARE_TOO])
    either = word(f"(^|,)(({begun})|({whole})(,|$))|({ended})(,|$)")
    return f"http-request set-var(txn.rare) bool(true) if {{ req.hdr_names -m reg -i {either} }}"


def connection_lines(trust: Trust) -> Iterator[str]:
    """Before anything is read of a connection."""
    trusted = f"{{ src {' '.join(trust.networks)} }}"
    if trust.proxy_protocol:
        yield f"tcp-request connection expect-proxy layer4 if {trusted}"
    if trust.client_connections:
        others = f" !{trusted}" if trust.networks else ""
        yield "stick-table type ipv6 size 100k expire 1m store conn_cur"
        yield f"tcp-request connection track-sc0 src if {{ src -m found }}{others}"
        yield f"tcp-request connection reject if {{ sc0_conn_cur gt {trust.client_connections} }}"


def client_lines(trust: Trust) -> Iterator[str]:
    """Address and scheme of the client, for everything that follows and for the application."""
    yield "http-request set-var(txn.secure) bool(true) if { ssl_fc }"
    strangers = f" if {RARE}"
    if trust.anybody:
        yield from _believed(trust)
        strangers += f" !{_PROXIED}"
    for part, where in _FORGEABLE_PARTS:
        yield f"http-request del-header {part} -m {where}{strangers}"
    for name in (*FORGEABLE, *trust.deadline_headers):
        yield f"http-request del-header {name}{strangers}"
    if trust.anybody:
        yield f"http-request del-header forwarded if {RARE}"
        yield f"http-request del-header x-forwarded-for if {RARE}"
    yield "http-request set-header x-forwarded-for %[src] if { src -m found }"
    yield f"http-request set-header x-forwarded-proto https if {{ {SECURE} -m found }}"
    yield f"http-request set-header x-forwarded-proto http if !{{ {SECURE} -m found }}"


def clock_lines(trust: Trust) -> Iterator[str]:
    """When the request was here: waits and deadlines count from it. A trusted proxy's own moment stays."""
    if not trust.anybody and not trust.due:
        yield "http-request set-header x-request-start t=%[date(0,us)]  # waits and deadlines count from here"
        return
    if trust.anybody:
        yield from _started_before()
    yield f"http-request set-var({START}) date(0,us) if !{{ var({START}) -m found }}"
    yield f"http-request set-header x-request-start t=%[var({START})]  # waits and deadlines count from here"


def _started_before() -> Iterator[str]:
    told, found = "req.fhdr(x-request-start)", f"{{ var({START}) -m found }}"
    for form, us in _STARTS:
        digits = f"{told},regsub([^0-9],,g),mul({us})"
        yield f"http-request set-var({START}) {digits} if {_PROXIED} {{ {told} -m reg {word(f'^(t=)?{form}$')} }}"
    yield f"http-request set-var(txn.spent) date(0,us),sub({START}) if {found}"
    yield f"http-request unset-var({START}) if {found} {{ var(txn.spent) -m int lt 0 }}  # its clock is ahead"
    yield f"http-request unset-var({START}) if {found} {{ var(txn.spent) -m int gt {_OLDEST_US} }}"


def _believed(trust: Trust) -> Iterator[str]:
    networks = " ".join(trust.networks)
    if networks:
        yield f"http-request set-var(txn.proxied) bool(true) if {{ src {networks} }}"
    if trust.unix:
        yield "http-request set-var(txn.proxied) bool(true) if !{ src -m found }  # only Unix peers have no address"
    yield f"http-request set-var(txn.hop1) req.hdr_ip(x-forwarded-for,-1) if {_PROXIED}"
    hops = range(2, _HOPS + 1) if networks else range(0)
    for hop in hops:
        before = f"{{ var(txn.hop{hop - 1}) -m ip {networks} }}"
        yield f"http-request set-var(txn.hop{hop}) req.hdr_ip(x-forwarded-for,-{hop}) if {before}"
    for hop in (1, *hops):
        yield f"http-request set-src var(txn.hop{hop}) if {{ var(txn.hop{hop}) -m found }}"
    says = "req.hdr(x-forwarded-proto,-1) -m str -i"
    yield f"http-request unset-var(txn.secure) if {_PROXIED} {{ {says} http }}"
    yield f"http-request set-var(txn.secure) bool(true) if {_PROXIED} {{ {says} https }}"


#: Whether a request asks for a WebSocket.
SOCKET: Final = "{ var(txn.socket) -m found }"
#: Most header lines of a request; more: 431. As gunicorn and Apache; a browser sends about 20.
HEADERS_MOST: Final = 100
# HAProxy's default, and the least with HTTP/2.
_BUFFER_BYTES: Final = 16_384
# What is kept free of it for headers of our own.
_RESERVE_BYTES: Final = 1024
# Header checking_lines that the front adds, and the request line.
_ADDED: Final = 16


def global_lines(trust: Trust) -> Iterator[str]:
    """Of the section `global`."""
    # A message that passes a gate is read twice, the second time with what was added.
    yield f"tune.http.maxhdr {HEADERS_MOST + _ADDED}"
    yield f"tune.http.logurilen {trust.target_max_bytes + 64}"
    if trust.head_max_bytes + _RESERVE_BYTES > _BUFFER_BYTES:
        yield f"tune.bufsize {trust.head_max_bytes + _RESERVE_BYTES}"


def first_lines() -> Iterator[str]:
    """Before the front adds anything: how much there is, and the target as workers get it."""
    yield "http-request set-var(txn.headers) req.fhdr_cnt"
    # An absolute target names its host again, and HAProxy has compared it with Host.
    absolute = "!HTTP_URL_SLASH !HTTP_2.0 HTTP_URL_ABS"  # what is false for nearly all stands first
    yield f"http-request set-uri %[pathq] if {absolute} {{ pathq -m found }}"
    yield f"http-request set-uri / if {absolute}  # it has none"


def checking_lines(trust: Trust) -> Iterator[str]:
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
        yield f"http-request wait-for-body time {milliseconds}ms if !{SOCKET}  # a slow sender holds no worker"


def _refusals(trust: Trust) -> Iterator[tuple[int, str, str]]:
    """Status, reason, condition."""
    coded = "{ req.fhdr(transfer-encoding) -m found }"
    yield 400, "no Host", "!{ req.fhdr(host) -m found } !HTTP_1.0"
    yield 400, "* is for OPTIONS", "HTTP_URL_STAR !METH_OPTIONS"
    yield 400, "no path", "!HTTP_URL_SLASH !HTTP_URL_STAR !HTTP_URL_ABS"
    yield 400, "Transfer-Encoding in HTTP/1.0", f"{RARE} HTTP_1.0 {coded}"
    other = "!{ req.fhdr(transfer-encoding) -m str -i chunked }"
    yield 501, "a transfer coding other than chunked", f"{RARE} {coded} {other}"
    yield 501, "more than one transfer coding", f"{RARE} {{ req.fhdr_cnt(transfer-encoding) gt 1 }}"
    yield 414, f"request target over {trust.target_max_bytes} bytes", f"{{ pathq,length gt {trust.target_max_bytes} }}"
    yield 431, f"more than {HEADERS_MOST} headers", f"{{ var(txn.headers) -m int gt {HEADERS_MOST} }}"
    if trust.body_max_bytes:
        yield 413, f"body over {trust.body_max_bytes} bytes", f"{{ req.body_size gt {trust.body_max_bytes} }}"


def _upgrades() -> Iterator[str]:
    """WebSockets only: a server that accepts h2c could be reached past the front."""
    asks = "{ req.hdr(upgrade) -m str -i websocket } { req.hdr(connection) -m str -i upgrade }"
    yield f"http-request set-var(txn.socket) bool(true) if {RARE} METH_GET {asks}"
    yield f"http-request del-header upgrade if {RARE} !{SOCKET}"
    yield f"http-request set-header upgrade websocket if {SOCKET}"
    yield f"http-request del-header http2-settings if {RARE}"


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
# Apache's and nginx's. The bytes are with the head, which HAProxy does not count apart.
_COMBINED: Final = "%[src] - - [%trg] %{+Q,+E}r %ST %B %{+Q,+E}[capture.req.hdr(2)] %{+Q,+E}[capture.req.hdr(1)]"


def log_lines(trust: Trust) -> Iterator[str]:
    """Of the public frontend; nothing without a log, except the request's id."""
    if trust.request_id_header:
        yield from _id(trust)
    if not trust.access_log:
        return
    raw = trust.access_log in ("stdout", "stderr")
    yield f"log {word(trust.access_log)} len {_LINE_BYTES} format {'raw' if raw else 'rfc3164'} local0"
    yield "option dontlognull  # connections without a request"
    yield f"capture request header host len {_HEADER_BYTES}"
    yield f"capture request header user-agent len {_HEADER_BYTES}"
    if trust.access_log_format == "combined":
        yield f"capture request header referer len {_HEADER_BYTES}"
        yield f"log-format {word(_COMBINED)}"
        return
    yield "http-request set-var(txn.target) pathq"
    yield "http-request set-var(txn.target) url if HTTP_URL_STAR"
    texts = {"id": f"%[var(txn.id),{_ESCAPED}]", **_TEXTS} if trust.request_id_header else _TEXTS
    fields = [f'"{name}":"{what}"' for name, what in texts.items()]
    fields += [f'"{name}":{what}' for name, what in _NUMBERS.items()]
    yield f"log-format {word('{' + ','.join(fields) + '}')}"


def target_lines(trust: Trust, condition: str) -> Iterator[str]:
    """Of the public frontend: the target of what is answered before the other log_lines."""
    if trust.access_log and trust.access_log_format == "json":
        yield f"http-request set-var(txn.target) pathq if {condition}"


def on_stderr(text: str) -> bool:
    """Whether this configuration writes a line for each request to stderr."""
    return re.search(r"^\s*log stderr ", text, re.MULTILINE) is not None


def _id(trust: Trust) -> Iterator[str]:
    name = trust.request_id_header
    if trust.anybody:
        plain = f"{{ req.hdr({name},-1) -m reg {word('^[A-Za-z0-9._:-]+$')} }}"
        yield f"http-request set-var(txn.id) req.hdr({name},-1) if {{ var(txn.proxied) -m found }} {plain}"
    yield "http-request set-var(txn.id) uuid() if !{ var(txn.id) -m found }"
    yield f"http-request set-header {name} %[var(txn.id)]"
