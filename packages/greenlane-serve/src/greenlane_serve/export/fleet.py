"""What an exported front makes of each setting: it does the same, leaves it to the servers behind, or is refused.

Servers read the same settings. What a front would have to do in their place, since it stands between them and the
clients, and cannot, is an error with the setting's name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from greenlane.errors import SettingsError
from greenlane.settings import settings_of
from greenlane_serve.lanes import FIRST_AT_ONCE, SHARED, FrontLane, Layout, layout_of
from greenlane_serve.settings import ServeSettings

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
    },
    "kubernetes": {
        **_TLS,
        "user": "pods start as no root; the image names their user",
    },
}
_REQUESTS: Final = ("trusted_proxies", "head_max_bytes", "body_max_mb", "head_timeout_s", "body_timeout_s",
                    "client_connections", "deadline_headers", "request_id_header")  # fmt: skip
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


# --- The servers of a fleet, and how many requests one front may give each.


_ATTEMPT: Final = "share the servers among the lanes"


@dataclass(frozen=True)
class Instance:
    """One server."""

    name: str
    host: str
    port: int

    @property
    def address(self) -> str:
        """`host:port`, an IPv6 host in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class Fleet:
    """Servers by the group whose requests they get."""

    settings: ServeSettings
    # Of one server.
    layout: Layout
    instances: Mapping[str, tuple[Instance, ...]]
    # Fronts that share the servers without knowing of each other: each may use its part of the places only.
    fronts: int = 1

    def places(self, group: str) -> int:
        """Requests that this front may give one server of the group at once."""
        return self._at_once * self.layout.groups[group] // self.fronts

    def whole(self) -> Layout:
        """The layout of all servers together, with one request at once per worker: a worker stands for a place."""
        lanes = tuple(self._whole_lane(lane) for lane in self.layout.lanes)
        return Layout(lanes, {group: self.places(group) * len(self.instances[group]) for group in self.layout.groups})

    @property
    def _at_once(self) -> int:
        return self.settings.at_once or FIRST_AT_ONCE

    def _whole_lane(self, lane: FrontLane) -> FrontLane:
        servers = len(self.instances[self.layout.group_of(lane)])
        kept = lane.processes * self._at_once * servers // self.fronts
        return replace(lane, processes=kept, at_once=lane.at_once and max(1, lane.at_once * servers // self.fronts))


def fleet_of(settings: ServeSettings, servers: Sequence[str], fronts: int = 1) -> Fleet:
    """The fleet of these servers.

    Args:
        servers: `host:port`, or `lane=host:port` for one that serves a hard lane alone. A hard lane without servers of
            its own is served by its workers on the others.
        fronts: fronts that are set up alike before the same servers.

    Raises:
        SettingsError: see `layout_of`; no server; a text that is none; a lane that is none, or not hard; more fronts
            than a server has places.
    """
    layout = layout_of(settings, live=False)
    hard = {lane.name: layout.group_of(lane) for lane in layout.lanes if lane.hard}
    found: dict[str, list[Instance]] = {group: [] for group in layout.groups}
    for number, text in enumerate(servers, 1):
        lane, equals, address = text.rpartition("=")
        if equals and lane not in hard:
            rule = f"one of the hard lanes ({', '.join(hard) or 'there is none'})"
            hint = "leave out its name: a soft lane is served by all"
            raise SettingsError("--server", text, rule, hint, attempted=_ATTEMPT)
        found[hard[lane] if equals else SHARED].append(_instance(f"s{number}", address))
    if not found[SHARED]:
        rule, hint = "at least one for all lanes", "name each: --server HOST:PORT"
        raise SettingsError("--server", list(servers), rule, hint, attempted=_ATTEMPT)
    instances = {group: tuple(own or found[SHARED]) for group, own in found.items()}
    fleet = Fleet(settings, layout, instances, fronts)
    for group in layout.groups:
        if fleet.places(group) < 1:
            rule = f"at most {Fleet(settings, layout, instances).places(group)}, the places of a server"
            hint = "use fewer fronts, or more workers a server"
            raise SettingsError("--fronts", fronts, rule, hint, attempted=_ATTEMPT)
    return fleet


def _instance(name: str, address: str) -> Instance:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536 or set(host) & set(" \t'\";{}\\"):
        raise SettingsError("--server", address, "host:port", "write it as 10.0.0.1:8000", attempted=_ATTEMPT)
    return Instance(name, host, int(port))
