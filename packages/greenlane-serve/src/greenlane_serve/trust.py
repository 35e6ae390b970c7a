"""Which peers the front trusts, and what it lets through: these settings as one value; docs/serve.md."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final

from greenlane.errors import SettingsError
from greenlane_serve.settings import ServeSettings

_ATTEMPT: Final = "read which proxies to trust"
#: In `trusted_proxies`: peers on a Unix socket. Its file mode says which may connect.
_UNIX: Final = "unix"


@dataclass(frozen=True)
class Trust:
    """Without settings: no peer is trusted."""

    # Networks of proxies before us; whether Unix sockets are theirs too; whether they speak the PROXY protocol.
    networks: tuple[str, ...] = ()
    unix: bool = False
    proxy_protocol: bool = False
    # Limits of a request; 0 = none.
    target_max_bytes: int = 4000
    head_max_bytes: int = 15_360
    body_max_bytes: int = 0
    # Longest wait for a body, or for the part of it that fits the front's buffer; 0 = a worker waits.
    body_wait_s: float = 30.0
    # Longest pause of a client that should send or read.
    silence_s: float = 30.0
    client_connections: int = 0
    http2: bool = True
    # WebSockets per worker beside its places; 0 = they take places.
    websockets: int = 0
    # Whether the front answers at a deadline, since workers may not; and what brings one from a trusted proxy.
    due: bool = False
    deadline_headers: tuple[str, ...] = ()
    # Clear requests are redirected to https, except the path "" = none.
    redirect: bool = False
    # "" = none.
    access_log: str = ""
    access_log_format: str = "json"
    request_id_header: str = ""

    @property
    def anybody(self) -> bool:
        """Whether any peer is trusted."""
        return bool(self.networks) or self.unix


def trust_of(settings: ServeSettings, kind: str = "wsgi") -> Trust:
    """What the settings say, for an application of this kind (`wsgi`, `asgi`).

    Raises:
        SettingsError: a network that is none, or settings that do nothing without another one.
    """
    _check_together(settings)
    return Trust(
        networks=tuple(_network(one) for one in settings.trusted_proxies if one != _UNIX),
        unix=_UNIX in settings.trusted_proxies,
        proxy_protocol=settings.proxy_protocol,
        target_max_bytes=settings.target_max_bytes,
        head_max_bytes=settings.head_max_bytes,
        body_max_bytes=round(settings.body_max_mb * 1e6),
        body_wait_s=settings.body_timeout_s if settings.body_first else 0.0,
        silence_s=settings.body_timeout_s,
        client_connections=settings.client_connections,
        http2=settings.http2,
        websockets=settings.websockets if kind == "asgi" else 0,
        due=kind == "asgi" and (bool(settings.trusted_proxies) or any(lane.deadline_ms for lane in settings.lanes)),
        deadline_headers=tuple(name.lower() for name in settings.deadline_headers),
        redirect=settings.tls_redirect,
        access_log=settings.access_log,
        access_log_format=settings.access_log_format,
        request_id_header=settings.request_id_header.lower(),
    )


def _network(text: str) -> str:
    try:
        return str(ipaddress.ip_network(text))
    except ValueError as error:
        rule = f"an address, or a network without bits beside its mask ({error})"
        raise SettingsError("trusted_proxies", text, rule, "write it as 10.0.0.0/8", attempted=_ATTEMPT) from None


def _check_together(settings: ServeSettings) -> None:
    """Settings that would silently do nothing."""
    if not settings.bind and not settings.tls_bind:
        raise SettingsError("bind", [], "at least one address, here or in tls_bind", 'set bind = ["127.0.0.1:8000"]')
    if settings.metrics_bind and not settings.metrics_path and not settings.alive_path:
        hint = 'set metrics_path = "/metrics"'
        raise SettingsError("metrics_bind", list(settings.metrics_bind), "nothing without metrics_path or alive_path",
                            hint, attempted=_ATTEMPT)  # fmt: skip
    if both := sorted(set(settings.bind) & set(settings.tls_bind)):
        raise SettingsError("tls_bind", both[0], "an address that is not in bind", "keep it in one", attempted=_ATTEMPT)
    if settings.tls_bind and not settings.tls_certificate:
        hint = 'set tls_certificate = "fullchain.pem"'
        raise SettingsError("tls_certificate", "", "a certificate for tls_bind", hint, attempted=_ATTEMPT)
    for name in ("tls_certificate", "tls_key", "tls_redirect"):
        if getattr(settings, name) and not settings.tls_bind:
            hint = 'set tls_bind = ["0.0.0.0:443"], or leave it out'
            raise SettingsError(name, getattr(settings, name), "nothing without tls_bind", hint, attempted=_ATTEMPT)
    if settings.access_log_format != "json" and not settings.access_log:
        raise SettingsError("access_log_format", settings.access_log_format, "nothing without access_log",
                            'set access_log = "stdout"', attempted=_ATTEMPT)  # fmt: skip
    if settings.proxy_protocol and not any(one != _UNIX for one in settings.trusted_proxies):
        hint = "name the balancer's addresses in trusted_proxies"
        raise SettingsError("proxy_protocol", True, "trusted_proxies that speak it", hint, attempted=_ATTEMPT)
