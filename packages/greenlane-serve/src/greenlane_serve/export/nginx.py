"""What nginx can do of the lanes: tell them apart, and send hard ones to servers of their own.

Its open version has no queue before upstreams and no priorities: queues, reserves and order are in each server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from greenlane_serve.export.instances import Fleet
from greenlane_serve.lanes import FrontLane

__all__ = ["text"]

_HEAD: Final = """\
# Written by `greenlane export nginx`: to be included in `http { … }`. Each server is a `greenlane serve`.
"""
# Idle connections that each nginx worker keeps to the servers of a group. Arbitrary.
_KEPT: Final = 64


def text(fleet: Fleet, listen: str) -> str:
    """The whole file; `listen` is what stands after that word."""
    parts = [_HEAD, *_upstreams(fleet), *_lanes(fleet), _server(listen)]
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
    yield _map("$http_upgrade", "$greenlane_connection", [(".", "upgrade")], '""')


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


def _server(listen: str) -> str:
    return f"""\
server {{
    listen {listen};
    client_max_body_size 0;  # the application's own limit counts
    location / {{
        proxy_pass http://$greenlane_group;
        proxy_http_version 1.1;
        proxy_set_header Host $http_host;
        proxy_set_header Connection $greenlane_connection;
        proxy_set_header Upgrade $http_upgrade;
        proxy_set_header X-Forwarded-For $remote_addr;
        proxy_set_header X-Forwarded-Proto $scheme;
        proxy_set_header X-Greenlane-Lane "";
        proxy_set_header X-Request-Start t=$msec;  # deadlines count from here where we are a trusted proxy
        proxy_connect_timeout 1s;
        proxy_read_timeout 1h;  # deadlines are the lanes'
        proxy_next_upstream error;  # what is not safe to send twice is only sent again when it was not sent
        proxy_next_upstream_tries 3;
    }}
}}
"""
