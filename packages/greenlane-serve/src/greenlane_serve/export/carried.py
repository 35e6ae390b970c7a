"""What an exported front makes of each setting: it does the same, leaves it to the servers behind, or is refused.

Servers read the same settings. What a front would have to do in their place, since it stands between them and the
clients, and cannot, is an error with the setting's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from greenlane.errors import SettingsError
from greenlane.settings import settings_of
from greenlane_serve.settings import ServeSettings

__all__ = ["CARRIED", "REFUSED", "refuse"]

_TLS: Final = dict.fromkeys(
    ("tls_bind", "tls_certificate", "tls_key", "tls_min_version", "tls_redirect"),
    "end TLS before it, and leave these out of the settings that it is exported from",
)
_FRONTS: Final = {
    **_TLS,
    "proxy_protocol": "the servers would expect it of this front, which does not speak it to them",
}
#: Target -> setting that it cannot do, why, or what to do. The others are carried, or the servers' own.
REFUSED: Final[Mapping[str, Mapping[str, str]]] = {
    "haproxy": _FRONTS,
    "nginx": _FRONTS,
    "envoy": {
        **_FRONTS,
        "client_connections": "Envoy counts no connections by address; limit them before it",
        "half_closed": "Envoy takes a client that has closed its sending side as gone",
    },
    "kubernetes": {
        **_TLS,
        "user": "pods start as no root; the image names their user",
    },
}
_REQUESTS: Final = ("trusted_proxies", "head_max_bytes", "body_max_mb", "head_timeout_s", "body_timeout_s",
                    "client_connections", "half_closed", "deadline_headers", "request_id_header")  # fmt: skip
#: Target -> settings that its file has. Lanes are in all of them.
CARRIED: Final[Mapping[str, tuple[str, ...]]] = {
    "haproxy": (*_REQUESTS, "workers", "at_once", "queue_s", "retry_after_s", "health_path", "target_max_bytes",
                "body_first", "websockets", "http2", "access_log", "access_log_format"),
    "nginx": _REQUESTS,
    "envoy": ("health_path", "head_max_bytes", "head_timeout_s", "http2", "deadline_headers",
              "request_id_header"),
}  # fmt: skip


def refuse(target: str, settings: ServeSettings) -> None:
    """Refuse what a target cannot do.

    Raises:
        SettingsError: such a setting is not at its default.
    """
    declared = settings_of(ServeSettings)
    for name, why in REFUSED[target].items():
        if (value := getattr(settings, name)) != declared[name].default:
            shown = list(value) if isinstance(value, tuple) else value
            raise SettingsError(name, shown, f"as it is by default, for {target}", why, attempted="export the lanes")
