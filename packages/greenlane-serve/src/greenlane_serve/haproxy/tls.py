"""What follows `bind` for addresses with TLS. Pure. HTTP/2 is agreed on by ALPN."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from greenlane.settings import Settings
from greenlane_serve.haproxy.words import word

__all__ = ["CERTIFICATE", "binds", "global_lines"]

#: Certificate, chain and key in one file of the front's folder.
CERTIFICATE: Final = "tls.pem"


def binds(settings: Settings, fds: Sequence[int], folder: Path) -> list[str]:
    """What follows `bind` for each listening socket: those of `bind`, then those of `tls_bind`."""
    protocols = "h2,http/1.1" if settings.http2 else "http/1.1"
    certificate = word(str(folder / CERTIFICATE))
    secure = f" ssl crt {certificate} alpn {protocols} ssl-min-ver TLSv{settings.tls_min_version}"
    clear = len(settings.bind)
    return [f"fd@{fd}{secure if number >= clear else ''}" for number, fd in enumerate(fds)]


def global_lines(settings: Settings) -> list[str]:
    """Of the section `global`: forward secrecy and authenticated ciphers for TLS 1.2; 1.3 has no others."""
    if not settings.tls_bind:
        return []
    return ["ssl-default-bind-ciphers ECDHE+AESGCM:ECDHE+CHACHA20"]
