"""A HAProxy configuration: layout and servers to text. Pure: the same in gives the same out.

What each section is for is told in docs/design/0017-serve.md. Lines that are not obvious carry their reason as a
comment in the text itself, where the person who reads it at night looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from greenlane.fleet.haproxy import diverted
from greenlane.fleet.haproxy.words import word
from greenlane.fleet.lanes import FrontLane
from greenlane.fleet.layout import SHARED, Layout
from greenlane.fleet.match import Match
from greenlane.fleet.versions import version_of

__all__ = ["LANE_HEADER", "PLACES", "Server", "Site", "configuration", "gate_name"]

#: Tells a worker the lane of a request; "" = none. A client's own is removed.
LANE_HEADER: Final = "x-greenlane-lane"
#: The one server of a gate.
PLACES: Final = "places"
_ONCE: Final = "http-request disable-l7-retry unless METH_GET or { method OPTIONS TRACE }"


@dataclass(frozen=True)
class Server:
    """One worker as the front sees it."""

    name: str
    # Its Unix socket, or an address as HAProxy writes it ("10.0.0.1:8000").
    socket: Path | str
    # Most requests that it gets at once.
    at_once: int
    # Whether it gets any: a worker that boots or is replaced does not.
    enabled: bool
    # Further words of its line.
    words: str = ""


@dataclass(frozen=True)
class Site:
    """All that the text is made of."""

    layout: Layout
    # Group -> its servers; `layout` names the groups.
    servers: Mapping[str, Sequence[Server]]
    # Words after `bind`: an address, or the descriptor of a socket ("fd@3").
    binds: Sequence[str]
    # Where the sockets of this HAProxy are: its runtime interface, and one for each gate.
    folder: Path
    # Group -> requests at once per worker, for which gates are made; live changes go through the runtime socket.
    at_once: Mapping[str, int]
    health_path: str = ""
    queue_s: float = 30.0
    head_timeout_s: float = 10.0
    retry_after_s: int = 1
    connections: int = 10_000
    # Gates of the configuration before that are none any more: a HAProxy that finishes what it has still sends to them.
    gates_before: Sequence[str] = field(default=())
    # Further lines: of the public frontend, before lanes are told apart; and of `global`.
    frontend_lines: Sequence[str] = field(default=())
    global_lines: Sequence[str] = field(default=())
    # Further lines of each group.
    group_lines: Sequence[str] = field(default=())
    # Whose value decides who is diverted; "" = chance.
    version_header: str = ""
    # What stands before the name of a gate in the address of its socket; "" = the sockets are in `folder`.
    gates: str = ""


def configuration(site: Site) -> str:
    """The whole text."""
    sections = [_global(site), _defaults(site), _public(site)]
    for lane in site.layout.lanes:
        if site.layout.gated(lane):
            sections += [_gate(site, lane), _behind(site, lane)]
    sections += [_behind_before(site, gate) for gate in site.gates_before]
    sections += [_group(site, group) for group in site.layout.groups]
    return "\n".join("\n".join(section) + "\n" for section in sections)


def gate_name(lane: FrontLane) -> str:
    """The backend of a lane's gate; its one server is `PLACES`."""
    return f"gate-{lane.name}" if lane.name else "gate"


def _section(head: str, lines: Iterable[str]) -> list[str]:
    return [head, *(f"    {line}" for line in lines)]


def _global(site: Site) -> list[str]:
    return _section("global", [
        "nbthread 1  # a thread serves some 30,000 requests a second, and shares idle connections with nobody",
        f"maxconn {site.connections}",
        f"stats socket {word(f'unix@{site.folder}/runtime')} mode 600 level admin",
        *site.global_lines,
    ])  # fmt: skip


def _defaults(site: Site) -> list[str]:
    retry = f"hdr Retry-After {site.retry_after_s}"
    return _section("defaults", [
        "mode http",
        "timeout connect 1s  # a worker answers at once or not at all",
        f"timeout http-request {_ms(site.head_timeout_s)}",
        "timeout client 60s",
        "timeout http-keep-alive 60s",
        "timeout server 1h  # deadlines are the lanes'; a download may be silent for long",
        "timeout tunnel 1h",
        f"timeout queue {_ms(site.queue_s)}",
        "option abortonclose  # a client that has gone is not served from the queue",
        "option redispatch 1  # a worker that has just died: the next try goes to another",
        "retries 2  # a request that kills workers is sent to three, one that meets two deaths is answered",
        "retry-on conn-failure empty-response",
        "option idle-close-on-response  # when replaced: a kept connection is told with its last answer, never cut",
        "http-reuse always",
        f"http-error status 503 content-type text/plain string \"no worker in time\\n\" {retry}",
    ])  # fmt: skip


def _public(site: Site) -> list[str]:
    lines = [f"bind {bind}" for bind in site.binds]
    if site.health_path:
        health = f"{{ path {word(site.health_path)} }}"
        groups = [group for group in site.layout.groups if not version_of(group)]
        alive = " ".join(f"{{ nbsrv({group}) gt 0 }}" for group in groups)
        lines += [
            f'http-request return status 200 content-type text/plain string "ok\\n" if {health} {alive}',
            f'http-request return status 503 content-type text/plain string "no worker\\n" if {health}',
        ]
    lines += [
        "http-request del-header x-greenlane- -m beg",
        "http-request set-header x-forwarded-for %[src]",
        "http-request set-header x-forwarded-proto https if { ssl_fc }",
        "http-request set-header x-forwarded-proto http unless { ssl_fc }",
        "http-request set-header x-request-start t=%[date(0,us)]  # waits and deadlines count from here",
        *site.frontend_lines,
        *_told_apart(site.layout),
        f"{_ONCE}  # only what is safe is sent twice",
        *diverted.choosing(site.layout.groups, site.folder, site.version_header),
        *diverted.using(site.layout.groups),
        *_used(site.layout),
    ]
    return _section("frontend public", lines)


def _told_apart(layout: Layout) -> Iterator[str]:
    """The first lane that matches is a request's lane."""
    lane_is = "var(txn.lane)"
    for number, lane in enumerate(layout.lanes):
        first = "" if number == 0 else f" !{{ {lane_is} -m found }}"
        for match in lane.matches:
            conditions = _conditions(lane, match.method_regex, _path_test(match))
            yield f"http-request set-var(txn.lane) str({word(lane.name)}) if {conditions}{first}"
    for lane in layout.lanes:
        if lane.name:
            yield f"http-request set-header {LANE_HEADER} {word(lane.name)} if {{ {lane_is} -m str {word(lane.name)} }}"
        if lane.name and lane.priority:
            yield f"http-request set-priority-class int({-lane.priority}) if {{ {lane_is} -m str {word(lane.name)} }}"


def _path_test(match: Match) -> str:
    if match.exact is not None:
        return f"-m str {word(match.exact)}"
    if match.prefix is not None:
        return f"-m beg {word(match.prefix)}"
    return f"-m reg {word(match.path_regex)}"


def _conditions(lane: FrontLane, method_regex: str, path_test: str) -> str:
    tests = [f"{{ path,url_dec {path_test} }}"]
    if method_regex:
        tests.append(f"{{ method -m reg {word(method_regex)} }}")
    tests += [f"{{ req.fhdr({name}) -m reg {word(regex)} }}" for name, regex in lane.headers]
    return " ".join(tests)


def _used(layout: Layout) -> Iterator[str]:
    for lane in layout.lanes:
        backend = gate_name(lane) if layout.gated(lane) else layout.group_of(lane)
        if lane.name:
            yield f"use_backend {backend} if {{ var(txn.lane) -m str {word(lane.name)} }}"
        else:
            yield f"default_backend {backend}"


def _gate(site: Site, lane: FrontLane) -> list[str]:
    places = site.layout.most(lane, site.at_once[site.layout.group_of(lane)])
    lines = [
        f"server {PLACES} {word(_behind_socket(site, lane))} maxconn {places}",
        "retries 0",
        "http-reuse never  # an idle connection to itself would keep a HAProxy that is to finish",
    ]
    if lane.deadline_ms:
        lines.insert(0, f"timeout queue {_ms(lane.deadline_ms / 1000)}")
    return _section(f"backend {gate_name(lane)}", lines)


def _behind(site: Site, lane: FrontLane) -> list[str]:
    lines = [f"bind {word(_behind_socket(site, lane))} mode 600"]
    if lane.priority:
        lines.append(f"http-request set-priority-class int({-lane.priority})")
    lines.append(_ONCE)
    lines.append(f"default_backend {site.layout.group_of(lane)}")
    return _section(f"frontend behind-{gate_name(lane)}", lines)


def _behind_socket(site: Site, lane: FrontLane) -> str:
    return _gate_socket(site, gate_name(lane))


def _behind_before(site: Site, gate: str) -> list[str]:
    return _section(f"frontend behind-{gate}", [
        f"bind {word(_gate_socket(site, gate))} mode 600",
        _ONCE,
        f"default_backend {SHARED}",
    ])  # fmt: skip


def _gate_socket(site: Site, gate: str) -> str:
    return f"{site.gates or f'unix@{site.folder}/'}{gate}"


def _group(site: Site, group: str) -> list[str]:
    lane = next((one for one in site.layout.lanes if one.hard and site.layout.group_of(one) == group), None)
    lines = ["balance leastconn", *site.group_lines]
    if lane is not None and lane.deadline_ms:
        lines.append(f"timeout queue {_ms(lane.deadline_ms / 1000)}")
    for server in site.servers[group]:
        where = server.socket if isinstance(server.socket, str) else f"unix@{server.socket}"
        further = f" {server.words}" if server.words else ""
        state = "" if server.enabled else " disabled"
        lines.append(f"server {server.name} {word(where)} maxconn {server.at_once}{further}{state}")
    return _section(f"backend {group}", lines)


def _ms(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"
