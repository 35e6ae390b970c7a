"""A HAProxy configuration: layout and servers to text. Pure: the same in gives the same out.

docs/design/0017-serve.md says what each section is for. Lines that are not obvious carry their reason as a
comment in the text itself, where the person who reads it at night looks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from greenlane_serve.haproxy import requests, routing
from greenlane_serve.haproxy.site import FrontServer, Site, milliseconds, section, word
from greenlane_serve.trust import Trust

#: The frontend that clients talk to.
PUBLIC: Final = "public"
#: The socket on which the tree answers Prometheus, and the backend that leads there.
METRICS: Final = "metrics"
#: The frontend of `metrics_bind`, and its connections.
INNER: Final = "inner"
_INNER: Final = 20
#: The backend whose servers stand for groups with a worker that serves, and the one that stands for the service.
LIFE: Final = "life"
DOOR: Final = "door"
_SPARE_S: Final = 5.0


def configuration(site: Site) -> str:
    """The whole text."""
    sections = [_global(site), _defaults(site), _public(site)]
    for lane in site.layout.lanes:
        if site.layout.gated(lane):
            sections += [routing.gate(site, lane), routing.behind_gate(site, lane)]
    sections += routing.due_sections(site)
    sections += [routing.behind_gate_before(site, gate) for gate in site.gates_before]
    sections += [_group(site, group) for group in site.layout.groups]
    if site.metrics_path or site.alive_path:
        sections.append(_metrics(site))
    if site.inner_binds:
        sections.append(_inner_frontend(site))
    if site.life is not None:
        sections.append(_life(site, site.life))
    if site.trust.websockets:
        sections += [_sockets(site, group) for group in site.layout.groups]
    return "\n".join("\n".join(lines) + "\n" for lines in sections)


def _global(site: Site) -> list[str]:
    return section("global", [
        "nbthread 1  # serves some 30,000 requests a second, and shares no idle connections",
        f"maxconn {site.connections}",
        f"stats socket {word(f'unix@{site.folder}/runtime')} mode 600 level admin",
        *_become(site),
        *requests.global_lines(site.trust),
        *site.global_lines,
    ])  # fmt: skip


def _become(site: Site) -> Iterator[str]:
    if site.account is not None:
        yield f"user {word(site.account.user)}  # once sockets, keys and certificates are open"
        yield f"group {word(site.account.group)}"


def _defaults(site: Site) -> list[str]:
    retry = f"hdr Retry-After {site.retry_after_s}"
    return section("defaults", [
        "mode http",
        "timeout connect 1s  # a worker answers at once or not at all",
        f"timeout http-request {milliseconds(site.head_timeout_s)}",
        f"timeout client {_silence(site)}  # for clients that do not read; longer than a request may wait in a queue",
        "timeout http-keep-alive 60s",
        "timeout server 1h  # deadlines are the lanes'; a download may be silent for long",
        "timeout tunnel 1h",
        f"timeout queue {milliseconds(site.queue_s)}",
        "option abortonclose  # a client that has gone is not served from the queue; 3.3 changed the default",
        "option redispatch 1  # a worker that has just died: the next try goes to another",
        "retries 2  # a request that kills workers is sent to three, one that meets two deaths is answered",
        "retry-on conn-failure empty-response",
        "option idle-close-on-response  # when replaced: a kept connection ends with its last answer, never before",
        "http-reuse always",
        "option http-no-delay  # a small piece of a stream does not wait for the next one, up to 200 ms",
        f"http-error status 503 content-type text/plain string \"no worker in time\\n\" {retry}",
    ])  # fmt: skip


def _silence(site: Site) -> str:
    waits_s = [site.queue_s, *(lane.deadline_ms / 1000 for lane in site.layout.lanes)]
    return milliseconds(max(site.trust.silence_s, max(waits_s) + _SPARE_S))


def _public(site: Site) -> list[str]:
    lines = [f"bind {bind}" for bind in site.binds]
    lines += _room(site)
    lines += requests.connection_lines(site.trust)
    if site.health_path:
        lines += requests.target_lines(site.trust, f"{{ path {word(site.health_path)} }}")
        lines += _health(site)
    if site.life is not None:
        lines.append(f"http-after-response set-header connection close if !{{ srv_is_up({LIFE}/{DOOR}) }}  # it ends")
    lines += [
        requests.rare_line(site.trust),
        f"http-request del-header x-greenlane- -m beg if {requests.RARE}",
        *requests.first_lines(),
        *requests.client_lines(site.trust),
        *requests.log_lines(site.trust),
        *requests.clock_lines(site.trust),
        *requests.checking_lines(site.trust),
        *_redirected(site.trust),
        *site.frontend_lines,
        *routing.choosing_lane(site.layout, site.folder),
        f"{routing.ONCE}  # only what is safe is sent twice",
        *routing.due_lines(site),
    ]
    if not site.inner_binds:
        lines += _inner(site)
    tunnels = routing.using_sockets(site.layout) if site.trust.websockets else ()
    used = [*routing.using_due(site), *routing.using_lanes(site.layout)]
    return section(f"frontend {PUBLIC}", [*lines, *tunnels, *used])


def _room(site: Site) -> Iterator[str]:
    """Clients take their own connections only, never those on which the front talks to itself, nor keep all of them."""
    gated = any(site.layout.gated(lane) for lane in site.layout.lanes)
    kept = _INNER if site.inner_binds else 0
    clients = (site.connections - kept) // (1 + gated + site.trust.due)
    yield f"maxconn {clients}  # the others are for what the front sends to itself"
    yield f"http-after-response set-header connection close if {{ fe_conn gt {clients * 3 // 4} }}  # make room"


def _redirected(trust: Trust) -> Iterator[str]:
    if trust.redirect:
        yield f"http-request redirect scheme https code 308 if !{{ {requests.SECURE} -m found }}"


def _health(site: Site) -> Iterator[str]:
    health = f"{{ path {word(site.health_path)} }}"
    served = (f"nbsrv({group}) gt 0" for group in site.layout.groups)
    if site.life is not None:  # a group's last server stays up when its worker dies
        served = (f"srv_is_up({LIFE}/{name})" for name in (DOOR, *site.life))
    alive = " ".join(f"{{ {one} }}" for one in served)
    yield f'http-request return status 200 content-type text/plain string "ok\\n" if {health} {alive}'
    yield f'http-request return status 503 content-type text/plain string "no worker\\n" if {health}'


def _inner(site: Site) -> Iterator[str]:
    """What the tree answers."""
    for path in filter(None, (site.metrics_path, site.alive_path)):
        yield f"use_backend {METRICS} if {{ path {word(path)} }}"


def _inner_frontend(site: Site) -> list[str]:
    """For monitoring: clients cannot reach it, nor exhaust its connections."""
    known = " ".join(word(path) for path in (site.health_path, site.metrics_path, site.alive_path) if path)
    return section(f"frontend {INNER}", [
        *(f"bind {bind}" for bind in site.inner_binds),
        f"maxconn {_INNER}",
        *(_health(site) if site.health_path else ()),
        f"http-request deny status 404 if !{{ path {known} }}",
        *_inner(site),
    ])  # fmt: skip


def _metrics(site: Site) -> list[str]:
    return section(f"backend {METRICS}", [
        "timeout server 30s",
        "retries 0",
        f"server tree {word(f'unix@{site.folder}/{METRICS}')} maxconn 4",
    ])  # fmt: skip


def _life(site: Site, life: Mapping[str, bool]) -> list[str]:
    """Nothing is sent there: its servers' states say what the parent knows."""
    servers = {DOOR: True, **life}
    where = word(f"unix@{site.folder}/{LIFE}")
    return section(f"backend {LIFE}", [
        f"server {name} {where}{'' if there else ' disabled'}" for name, there in servers.items()
    ])  # fmt: skip


def _sockets(site: Site, group: str) -> list[str]:
    servers = [replace(server, at_once=site.trust.websockets) for server in site.servers[group]]
    return section(f"backend {routing.sockets_backend(group)}", ["balance leastconn", *map(_server, servers)])


def _group(site: Site, group: str) -> list[str]:
    lane = next((one for one in site.layout.lanes if one.hard and site.layout.group_of(one) == group), None)
    lines = ["balance leastconn", *site.group_lines]
    if lane is not None and lane.deadline_ms:
        lines.append(f"timeout queue {milliseconds(lane.deadline_ms / 1000)}")
    lines += map(_server, site.servers[group])
    return section(f"backend {group}", lines)


def _server(server: FrontServer) -> str:
    where = server.socket if isinstance(server.socket, str) else f"unix@{server.socket}"
    further = f" {server.words}" if server.words else ""
    state = "" if server.enabled else " disabled"
    return f"server {server.name} {word(where)} maxconn {server.at_once}{further}{state}"
