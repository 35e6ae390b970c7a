"""Who the client is: lines of the public frontend. Pure.

The peer's address is the client's, unless the peer is a trusted proxy: then the last entry of its X-Forwarded-For is,
and so on back through further trusted ones. An entry that is no address ends the walk: what stands before it was
written by somebody unknown. An application gets one address and one scheme, whatever was sent.

`Forwarded` (RFC 7239) is believed of nobody: a proxy that passes one on without writing it would let anybody in, and
HAProxy reads it only from 2.8 on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from greenlane_serve.haproxy.words import word
from greenlane_serve.trust import Trust

__all__ = ["SECURE", "START", "client_lines", "clock_lines", "connection_lines"]

#: Whether the client's own connection is TLS, as far as is known.
SECURE: Final = "var(txn.secure)"
#: When the first front of ours had the request, in us since 1970; only where it is asked for.
START: Final = "txn.start"
_PROXIED: Final = "{ var(txn.proxied) -m found }"
# Proxies in a row that are looked behind. Arbitrary: an edge, a balancer, an ingress, a sidecar, and one to spare.
_HOPS: Final = 5
# What fronts write: us, and ms or s.ms. Older than this is no wait of ours, as for the workers.
_STARTS: Final = (("[0-9]{16}", 1), ("[0-9]{10}[.]?[0-9]{3}", 1000))
_OLDEST_US: Final = 600_000_000
# What applications and servers commonly believe: how names begin, and names. SCRIPT_NAME and the like have an
# underscore, and such names never get through. One line each, since a regular expression on every name costs 20 us.
_FORGEABLE_BEGIN: Final = ("x-forwarded", "x-original-", "cf-connecting-ip")
_FORGEABLE: Final = (
    "forwarded", "x-real-ip", "x-real-port", "x-client-ip", "x-cluster-client-ip", "true-client-ip",
    "fastly-client-ip", "x-scheme", "x-url-scheme", "x-script-name", "x-rewrite-url", "front-end-https",
)  # fmt: skip


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
    strangers = ""
    if trust.networks or trust.unix:
        yield from _believed(trust)
        strangers = f" if !{_PROXIED}"
    for begins in _FORGEABLE_BEGIN:
        yield f"http-request del-header {begins} -m beg{strangers}"
    for name in _FORGEABLE:
        yield f"http-request del-header {name}{strangers}"
    if strangers:
        yield "http-request del-header forwarded"
        yield "http-request del-header x-forwarded-for"
    yield "http-request set-header x-forwarded-for %[src] if { src -m found }"
    yield f"http-request set-header x-forwarded-proto https if {{ {SECURE} -m found }}"
    yield f"http-request set-header x-forwarded-proto http if !{{ {SECURE} -m found }}"


def clock_lines(trust: Trust) -> Iterator[str]:
    """When the request was here: waits and deadlines count from it. A trusted proxy's own moment stays."""
    behind = trust.networks or trust.unix
    if not behind and not trust.due:
        yield "http-request set-header x-request-start t=%[date(0,us)]  # waits and deadlines count from here"
        return
    if behind:
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
