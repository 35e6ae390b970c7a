"""What clients may do: time, sizes, proxies that are believed, TLS, and what is logged of them."""

from __future__ import annotations

from dataclasses import dataclass

from greenlane.setting import declare
from greenlane.settings.declared.patterns import ADDRESS, ANY_FILE, HEADER_OR_NONE, LOG, PEER

__all__ = ["ClientSettings"]


@dataclass(frozen=True)
class ClientSettings:
    """The side of the front that clients see."""

    head_timeout_s: float = declare(
        10.0, "Time a client has to send request line and headers.",
        unit="s", low=0.1, high=3600, reason="Arbitrary; ten times a slow mobile round trip, and a thread is not held.",
    )  # fmt: skip
    body_timeout_s: float = declare(
        30.0, "Time between two pieces of a request's body.",
        unit="s", low=0.1, high=3600, reason="Arbitrary; a phone that changes networks comes back within it.",
    )  # fmt: skip
    body_bytes_per_s: int = declare(
        500, "Least mean rate of a request's body, after the first `body_timeout_s` of waiting for it; 0 = none.",
        low=0, high=1_000_000_000, reason="A client that sends a byte now and then would hold a worker for ever.",
    )  # fmt: skip
    trusted_proxies: tuple[str, ...] = declare(
        (), "Proxies before `greenlane serve` whose X-Forwarded-* is believed; `unix` = who connects to a socket.",
        pattern=PEER, reason="A header that anybody can send says nothing.",
    )  # fmt: skip
    proxy_protocol: bool = declare(
        False, "Connections of `trusted_proxies` to `greenlane serve` begin with the PROXY protocol (version 1 or 2).",
        reason="Who does not speak it would be refused; TCP load balancers do when they are told to.",
    )  # fmt: skip
    target_max_bytes: int = declare(
        4000, "Longest request target (path and query) under `greenlane serve`; over it 414.",
        low=64, high=8000, reason="gunicorn's own limit on the request line is 4094.",
    )  # fmt: skip
    headers_max: int = declare(
        100, "Most header lines of a request under `greenlane serve`; over it 431.",
        low=10, high=1000, reason="gunicorn's and Apache's; a browser sends some 20.",
    )  # fmt: skip
    head_max_bytes: int = declare(
        15_360, "Longest head of a request under `greenlane serve`, request line included; over it 400.",
        low=15_360, high=261_120, reason="Each connection has a buffer of this size: HAProxy's own, less its reserve.",
    )  # fmt: skip
    body_max_mb: float = declare(
        0.0, "Longest body of a request under `greenlane serve`; over it 413. 0 = no limit.",
        low=0, high=1_000_000, reason="Nothing is kept of a body: what is too long, only the service knows.",
    )  # fmt: skip
    body_first: bool = declare(
        True, "Under `greenlane serve` a worker gets a request when its body is there, or the first `head_max_bytes`.",
        reason="A client that sends slowly holds no worker; only applications that answer while they read lose by it.",
    )  # fmt: skip
    client_connections: int = declare(
        0, "Most connections of one client's address to `greenlane serve`, `trusted_proxies` excepted; 0 = no limit.",
        low=0, high=1_000_000, reason="Whole companies share an address; 100 and over keeps out only who means harm.",
    )  # fmt: skip
    http2: bool = declare(
        True, "HTTP/2 to clients of `greenlane serve`: offered over TLS, accepted on `bind` from who begins with it.",
        reason="Workers get HTTP/1.1 either way.",
    )  # fmt: skip
    websockets: int = declare(
        1000, "Most open WebSockets of a worker of `greenlane serve`, beside its requests; 0 = they are requests.",
        low=0, high=1_000_000, reason="They last for hours and mostly sleep; each costs a socket and a task.",
    )  # fmt: skip
    tls_bind: tuple[str, ...] = declare(
        (), "Where `greenlane serve` listens with TLS, beside `bind`.",
        pattern=ADDRESS, reason="There is no certificate until somebody names one.",
    )  # fmt: skip
    tls_certificate: str = declare(
        "", "PEM file: the certificate, then its chain. Read again when it changes; '' = no TLS.",
        pattern=ANY_FILE, reason="Certificates are made elsewhere.",
    )  # fmt: skip
    tls_key: str = declare(
        "", "PEM file: the certificate's key, without a passphrase; '' = it stands in `tls_certificate`.",
        pattern=ANY_FILE, reason="Some tools write one file, some two.",
    )  # fmt: skip
    tls_min_version: str = declare(
        "1.2", "Oldest TLS version that clients may speak.",
        choices=("1.2", "1.3"), reason="Older ones are forbidden by RFC 8996; clients without 1.3 are still about.",
    )  # fmt: skip
    tls_redirect: bool = declare(
        False, "What comes on `bind` is sent to https (308), the health path excepted.",
        reason="`bind` may be for neighbours that speak plain HTTP on purpose.",
    )  # fmt: skip
    access_log: str = declare(
        "", "Where `greenlane serve` writes a line of JSON for each request; an address or a path is syslog's.",
        pattern=LOG, reason="A line a request is a cost that somebody has to want.",
    )  # fmt: skip
    request_id_header: str = declare(
        "", "Header with which `greenlane serve` gives each request a new id (a trusted proxy's is kept); '' = none.",
        pattern=HEADER_OR_NONE, reason="Services that trace have ids already.",
    )  # fmt: skip
