"""Every setting of serve, for each target: its file says it, the servers behind do it, or it is refused by its name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from greenlane.errors import SettingsError
from greenlane.settings import Lane, settings_of
from greenlane_serve.export import envoy, haproxy, kubernetes, nginx
from greenlane_serve.export.carried import CARRIED, REFUSED
from greenlane_serve.export.instances import fleet_of
from greenlane_serve.settings import ServeSettings

SETTINGS = ServeSettings(workers=4, at_once=2, lanes=(Lane("light", match=("/light*",), processes=1),))
CLUSTER = kubernetes.Cluster("shop", "shop:app", "registry/shop:7", "")
# Values that no rule of the declaration tells: another one than the default, with what it needs beside it.
OTHER: dict[str, Any] = {
    "bind": ("0.0.0.0:81",), "metrics_bind": ("0.0.0.0:82",), "tls_bind": ("0.0.0.0:443",), "tls_certificate": "/a.pem",
    "tls_key": "/b.pem", "tls_min_version": "1.3", "user": "shop",
    "trusted_proxies": ("10.0.0.0/8",), "access_log": "stdout", "alive_path": "/alive",
    "request_id_header": "x-id", "health_path": "/healthz", "metrics_path": "/measured", "deadline_headers": ("x-due",),
    "placements": {"a:b": "process"}, "cluster_address": "local",
    "process_warm_up": "a:b", "deadline_out_header": "x-left", "control_dir": "/control", "record_folder": "/record",
    "workers": 6, "root_path": "/shop",
}  # fmt: skip
TLS = {"tls_bind": ("0.0.0.0:443",), "tls_certificate": "/a.pem"}
BESIDE: dict[str, dict[str, Any]] = {
    "metrics_bind": {"alive_path": "/alive"}, "proxy_protocol": {"trusted_proxies": ("10.0.0.0/8",)},
    **dict.fromkeys(("tls_bind", "tls_certificate", "tls_key", "tls_redirect"), TLS),
    "access_log_format": {"access_log": "stdout"},
}  # fmt: skip
# A pod says these itself.
PODS_OWN = {"bind", "workers", "control_dir", "record_folder", "metrics_bind"}
NAMES = sorted(settings_of(ServeSettings))


def other(name: str) -> Any:
    """A value that is not the default."""
    if name in OTHER:
        return OTHER[name]
    key = settings_of(ServeSettings)[name]
    if key.choices:
        return next(one for one in key.choices if one != key.default)
    if isinstance(key.default, bool):
        return not key.default
    assert isinstance(key.default, int | float), name
    low = key.low or 0
    return type(key.default)(low if low != key.default else low + 1)


def text(target: str, settings: ServeSettings) -> str:
    if target == "kubernetes":
        return str(kubernetes.documents(settings, CLUSTER))
    fleet = fleet_of(settings, ["10.0.0.1:8000", "10.0.0.2:8000"])
    if target == "haproxy":
        return haproxy.text(fleet, "0.0.0.0:80", Path("/run/haproxy"))
    return nginx.text(fleet, "0.0.0.0:80") if target == "nginx" else str(envoy.bootstrap(fleet, "0.0.0.0", 80))


@pytest.mark.parametrize("target", ["haproxy", "nginx", "envoy", "kubernetes"])
def test_every_setting_is_carried_left_to_the_servers_or_refused_by_name(target: str) -> None:
    found: dict[str, list[str]] = {"carried": [], "refused": [], "servers": []}
    for name in NAMES:
        before = replace(SETTINGS, **BESIDE.get(name, {}))
        if any(one in REFUSED[target] for one in BESIDE.get(name, {})):
            before = SETTINGS  # refused already
        after = replace(before, **{name: other(name)})
        try:
            made = text(target, after)
        except SettingsError as error:
            assert error.name == name, name
            found["refused"].append(name)
        else:
            found["carried" if made != text(target, before) else "servers"].append(name)
    assert found["refused"] == sorted(REFUSED[target])
    assert set(found["refused"]) <= set(NAMES)
    if target == "kubernetes":
        assert set(found["servers"]) == PODS_OWN - {"workers"}
    else:
        assert found["carried"] == sorted(CARRIED[target])


def test_nginx_lets_streams_through_as_they_come_and_heads_as_large_as_the_servers_take() -> None:
    said = text("nginx", replace(SETTINGS, head_max_bytes=65_536))
    assert "proxy_buffering off;" in said
    assert "proxy_request_buffering off;" in said
    assert "large_client_header_buffers 4 65536;" in said
