"""Backends whose one server is a socket of this HAProxy itself: gates of lanes, and answers at a deadline. Pure.

A lane that may not take every place of its group waits in a *gate*: its one server leads to the group's backend, and
`maxconn` there is the lane's places.

Answers leave on time, whatever queues and workers do. A worker with threads answers at the deadline while its work goes
on. A loop that is blocked cannot, and nobody can for a request that still waits. So a request with a deadline goes
through a backend `due`, whose `timeout server` is what the request has left: queues and worker together. When it is
over the client has its 504, and what is behind sees a client that has left: it is taken out of the queue, or told at
its checkpoint. One hop and not `timeout server` of the workers' own backend: that begins when a request leaves the
queue.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from greenlane_serve.haproxy.requests import START
from greenlane_serve.haproxy.routing import LANE_HEADER, priorities, using_lanes
from greenlane_serve.haproxy.site import Site, milliseconds, section, word
from greenlane_serve.lanes import SHARED, FrontLane, Layout

__all__ = [
    "DUE",
    "ONCE",
    "PLACES",
    "behind_gate",
    "behind_gate_before",
    "due_limit",
    "due_lines",
    "due_sections",
    "gate",
    "own_socket",
    "using_due",
]

#: The one server of a gate.
PLACES: Final = "places"
#: Of every frontend: only what is safe is sent twice.
ONCE: Final = "http-request disable-l7-retry unless METH_GET or { method OPTIONS TRACE }"


def gate(site: Site, lane: FrontLane) -> list[str]:
    """The backend in which a lane waits: its one server is the way to its group, with the lane's places."""
    places = site.layout.most(lane, site.at_once[site.layout.group_of(lane)])
    lines = [
        f"server {PLACES} {word(own_socket(site, lane.gate))} maxconn {places}",
        "retries 0",
        "http-reuse never  # an idle connection to itself would keep a HAProxy that is to finish",
    ]
    if lane.deadline_ms:
        lines.insert(0, f"timeout queue {milliseconds(lane.deadline_ms / 1000)}")
    return section(f"backend {lane.gate}", lines)


def behind_gate(site: Site, lane: FrontLane) -> list[str]:
    """The frontend behind a gate, which leads to the lane's group."""
    lines = [f"bind {word(own_socket(site, lane.gate))} {site.own}"]
    if lane.priority:
        lines.append(f"http-request set-priority-class int({-lane.priority})")
    lines.append(ONCE)
    lines.append(f"default_backend {site.layout.group_of(lane)}")
    return section(f"frontend behind-{lane.gate}", lines)


def behind_gate_before(site: Site, name: str) -> list[str]:
    """Behind a gate that only the previous configuration has."""
    return section(f"frontend behind-{name}", [
        f"bind {word(own_socket(site, name))} {site.own}",
        ONCE,
        f"default_backend {SHARED}",
    ])  # fmt: skip


def own_socket(site: Site, name: str) -> str:
    """Address of a socket on which this HAProxy listens for itself."""
    return f"{site.gates or f'unix@{site.folder}/'}{name}"


#: The backend, and its socket.
DUE: Final = "due"
_DUE: Final = "txn.due"
_FOUND: Final = f"{{ var({_DUE}) -m found }}"
_GRPC: Final = "grpc-timeout"
_GRPC_UNITS: Final = (
    ("H", "mul(3600000)"), ("M", "mul(60000)"), ("S", "mul(1000)"), ("m", "mul(1)"), ("u", "div(1000)"),
    ("n", "div(1000000)"),
)  # fmt: skip
# `timeout server` of all others; HAProxy counts up to 24 days.
_FARTHEST_MS: Final = 3_600_000


def due_lines(site: Site) -> Iterator[str]:
    """Of the public frontend, once lanes are matched: how many ms a request has left, if it has a deadline."""
    if not site.trust.due:
        return
    before = ""
    for number, name in enumerate(site.trust.deadline_headers if site.trust.anybody else ()):
        told = f"var(txn.told{number})"
        yield f"http-request set-var(txn.told{number}) req.fhdr({name})"
        yield from (f"{line}{before}" for line in _told(name, told))
        before += f" !{{ {told} -m found }}"
    yield f"http-request unset-var({_DUE}) if {_FOUND} {{ var({_DUE}) -m int lt 1 }}"
    for lane in site.layout.lanes:
        if lane.deadline_ms:
            mine, ms = f"{{ var(txn.lane) -m str {word(lane.name)} }}", math.ceil(lane.deadline_ms)
            yield f"http-request set-var({_DUE}) int({ms}) if {mine} !{_FOUND}"
            yield f"http-request set-var({_DUE}) int({ms}) if {mine} {{ var({_DUE}) -m int gt {ms} }}"
    yield f"http-request unset-var({_DUE}) if {_FOUND} {{ var({_DUE}) -m int ge {_FARTHEST_MS} }}"
    yield f"http-request set-var(txn.spent) date(0,us),sub({START}),div(1000) if {_FOUND}"
    yield f"http-request set-var({_DUE}) var({_DUE}),sub(txn.spent) if {_FOUND}"
    yield f"http-request set-var({_DUE}) int(1) if {_FOUND} {{ var({_DUE}) -m int lt 1 }}"


def using_due(site: Site) -> Iterator[str]:
    """Of the public frontend, before the lanes' backends."""
    if site.trust.due:
        yield f"use_backend {DUE} if {_FOUND}"


def due_limit(site: Site) -> Iterator[str]:
    """Of a backend that what has a deadline reaches without the hop: its time in the worker."""
    if site.trust.due:
        yield f"http-request set-timeout server var({_DUE}) if {_FOUND}"


def due_sections(site: Site) -> Iterator[list[str]]:
    """The backend, and the frontend behind it."""
    if not site.trust.due:
        return
    where = word(own_socket(site, DUE))
    yield section(f"backend {DUE}", [
        *due_limit(site),
        'http-error status 504 content-type text/plain string "deadline exceeded\\n"',
        f"server {PLACES} {where}",
        "retries 0",
        "http-reuse never  # an idle connection to itself would keep a HAProxy that is to finish",
    ])  # fmt: skip
    yield section(f"frontend behind-{DUE}", [
        f"bind {where} {site.own}",
        *_lanes_again(site.layout),
        ONCE,
        *using_lanes(site.layout),
    ])  # fmt: skip


def _lanes_again(layout: Layout) -> Iterator[str]:
    """The lane is known already: the public frontend has written it."""
    yield f"http-request set-var(txn.lane) req.hdr({LANE_HEADER})"
    yield from priorities(layout)


def _told(name: str, field: str) -> Iterator[str]:
    """A header's time in ms, by its value. What makes no sense is none, as for the workers."""
    if name != _GRPC:
        form = word("^[0-9]{1,9}([.][0-9]{1,6})?$")
        yield f"http-request set-var({_DUE}) {field},field(1,.),add(0) if {{ {field} -m reg {form} }}"
        return
    for unit, in_ms in _GRPC_UNITS:
        form = word(f"^[0-9]{{1,8}}{unit}$")
        yield f"http-request set-var({_DUE}) {field},field(1,{unit}),{in_ms} if {{ {field} -m reg {form} }}"
