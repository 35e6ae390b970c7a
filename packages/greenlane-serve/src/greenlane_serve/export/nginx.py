"""What nginx can do of the lanes: tell them apart, and send hard ones to servers of their own.

Its open version has no queue before upstreams and no priorities: queues, reserves and order are in each server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from greenlane_serve.export.fleet import Fleet, refuse
from greenlane_serve.haproxy.requests import FORGEABLE, FORGEABLE_BEGUN
from greenlane_serve.haproxy.site import milliseconds
from greenlane_serve.lanes import FrontLane
from greenlane_serve.trust import Trust, trust_of

_HEAD: Final = """\
# Written by `greenlane export nginx`: to be included in `http { … }`. Each server is a `greenlane serve`.
"""
# Idle connections that each nginx worker keeps to the servers of a group. Arbitrary.
_KEPT: Final = 64


def text(fleet: Fleet, listen: str) -> str:
    """The whole file; `listen` is what stands after that word.

    Raises:
        SettingsError: a setting that nginx cannot do.
    """
    refuse("nginx", fleet.settings)
    trust = trust_of(fleet.settings)
    parts = [_HEAD, *_upstreams(fleet), *_lanes(fleet), *_peers(trust), _server(fleet, trust, listen)]
    return "\n".join(parts)


def _upstreams(fleet: Fleet) -> Iterator[str]:
    for group, instances in fleet.instances.items():
        lines = [f"    server {one.address} max_fails=3 fail_timeout=2s;" for one in instances]
        yield "\n".join([
            f"upstream {group} {{",
            f"    zone {group} 64k;  # counts requests of all nginx workers together",
            "    least_conn;",
            *lines,
            f"    keepalive {_KEPT};",
            "}\n",
        ])  # fmt: skip


def _lanes(fleet: Fleet) -> Iterator[str]:
    """One map for each thing that a lane asks for, giving 1 or 0; then one that reads them in the lanes' order."""
    lanes = [lane for lane in fleet.layout.lanes if lane.matches]
    source, rows = "", []
    for number, lane in enumerate(lanes, 1):
        tests = list(_tests(number, lane))
        yield from (_map(asked, name, [(regex, "1") for regex in regexes], "0") for asked, name, regexes in tests)
        rows.append(("^" + "." * source.count("$") + "1" * len(tests), fleet.layout.group_of(lane)))
        source += "".join(name for _, name, _ in tests)
    yield _map(source or "-", "$greenlane_group", rows, fleet.layout.group_of(fleet.layout.lanes[-1]))
    # WebSockets only: a server that accepts h2c could be reached past this front.
    asked = "$request_method:$http_upgrade"
    yield _map(asked, "$greenlane_upgrade", [("^GET:(?i:websocket)$", "websocket")], '""')
    yield _map("$greenlane_upgrade", "$greenlane_connection", [(".", "upgrade")], '""')


def _tests(number: int, lane: FrontLane) -> Iterator[tuple[str, str, list[str]]]:
    """(what is looked at, name of the answer, regular expressions of which one must match)."""
    yield "$request_method:$uri", f"$greenlane_{number}_path", [match.whole_regex(":") for match in lane.matches]
    for place, (header, regex) in enumerate(lane.headers, 1):
        yield f"$http_{header.replace('-', '_')}", f"$greenlane_{number}_header_{place}", [regex]


def _map(source: str, name: str, rows: list[tuple[str, str]], default: str) -> str:
    lines = [f"    {_quoted(f'~{regex}')} {value};" for regex, value in rows]
    return "\n".join([f'map "{source}" {name} {{', f"    default {default};", *lines, "}\n"])


def _quoted(value: str) -> str:
    """One word for nginx; it takes a backslash away before quotes and backslashes only."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _peers(trust: Trust) -> Iterator[str]:
    """The client's address and trusted headers: the servers trust all that this front sends."""
    rows = [f"    {network} 1;" for network in trust.networks]
    yield "\n".join(["geo $greenlane_trusted {", "    default 0;", *rows, "}\n"])
    if_trusted = "$greenlane_trusted:"
    yield _map("$greenlane_trusted", "$greenlane_for", [("1", "$proxy_add_x_forwarded_for")], "$remote_addr")
    yield _map(f"{if_trusted}$http_x_forwarded_proto", "$greenlane_proto",
               [("^1:(.*, *)?https$", "https"), ("^1:(.*, *)?http$", "http")], "$scheme")  # fmt: skip
    yield _map(f"{if_trusted}$http_x_request_start", "$greenlane_start", [("^1:.", "$http_x_request_start")], "t=$msec")
    for name in _believed(trust):
        yield _map("$greenlane_trusted", _kept(name), [("1", f"$http_{name.replace('-', '_')}")], '""')
    if trust.client_connections:
        yield _map("$greenlane_trusted", "$greenlane_client", [("1", '""')], "$binary_remote_addr")
        yield "limit_conn_zone $greenlane_client zone=greenlane:10m;\n"


def _believed(trust: Trust) -> Iterator[str]:
    """Headers that only a trusted proxy may send."""
    names = (*FORGEABLE_BEGUN, *FORGEABLE, *trust.deadline_headers, trust.request_id_header)
    yield from dict.fromkeys(name for name in names if name and name != "forwarded")


def _kept(name: str) -> str:
    return f"$greenlane_kept_{name.replace('-', '_')}"


def _server(fleet: Fleet, trust: Trust, listen: str) -> str:
    wait = milliseconds(trust.silence_s)
    lines = [
        f"listen {listen};",
        f"client_max_body_size {trust.body_max_bytes};  # 0 = none",
        f"large_client_header_buffers 4 {trust.head_max_bytes};  # a line each; the servers count all of it",
        f"client_header_timeout {milliseconds(fleet.settings.head_timeout_s)};",
        f"client_body_timeout {wait};",
        f"send_timeout {wait};",
        "proxy_http_version 1.1;",
        "proxy_buffering off;  # what is sent piece by piece arrives so",
        "proxy_request_buffering off;  # the servers wait for a body's beginning themselves",
    ]
    if trust.client_connections:
        lines += [f"limit_conn greenlane {trust.client_connections};", "limit_conn_status 429;"]
    headers = [
        "Host $http_host", "Connection $greenlane_connection", "Upgrade $greenlane_upgrade",
        "X-Forwarded-For $greenlane_for", "X-Forwarded-Proto $greenlane_proto", 'Forwarded ""', 'X-Greenlane-Lane ""',
        "X-Request-Start $greenlane_start",  # deadlines count from here where we are a trusted proxy
        *(f"{name} {_kept(name)}" for name in _believed(trust)),
    ]  # fmt: skip
    inner = [
        "proxy_pass http://$greenlane_group;",
        *(f"proxy_set_header {header};" for header in headers),
        "proxy_connect_timeout 1s;",
        "proxy_read_timeout 1h;  # deadlines are the lanes'",
        "proxy_send_timeout 1h;",
        "proxy_next_upstream error;  # what is not safe to send twice is only sent again when it was not sent",
        "proxy_next_upstream_tries 3;",
    ]
    return "\n".join([
        "server {", *(f"    {line}" for line in lines), "    location / {", *(f"        {line}" for line in inner),
        "    }", "}\n",
    ])  # fmt: skip
