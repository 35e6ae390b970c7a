"""Answers that leave on time, whatever queues and workers do: what has a deadline passes one more hop. Pure.

A worker with threads answers at the deadline while its work goes on. A loop that is blocked cannot, and nobody can for
who still waits. So a request with a deadline goes through a backend `due`, whose one server is a socket of this HAProxy
itself and whose `timeout server` is what the request has left: queues and worker together. When it is over the client
has its 504, and what is behind sees a client that has left: it is taken out of the queue, or told at its checkpoint.

One hop and not `timeout server` of the workers' own backend: that begins when a request leaves the queue.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from greenlane_serve.haproxy import told_apart
from greenlane_serve.haproxy.gates import ONCE, PLACES, own_socket
from greenlane_serve.haproxy.peers import START
from greenlane_serve.haproxy.site import Site
from greenlane_serve.haproxy.words import section, word
from greenlane_serve.layout import Layout

__all__ = ["NAME", "choosing", "limit", "sections", "using"]

#: The backend, and its socket.
NAME: Final = "due"
_DUE: Final = "txn.due"
_FOUND: Final = f"{{ var({_DUE}) -m found }}"
_GRPC: Final = "grpc-timeout"
_GRPC_UNITS: Final = (
    ("H", "mul(3600000)"), ("M", "mul(60000)"), ("S", "mul(1000)"), ("m", "mul(1)"), ("u", "div(1000)"),
    ("n", "div(1000000)"),
)  # fmt: skip
# `timeout server` of all others; HAProxy counts up to 24 days.
_FARTHEST_MS: Final = 3_600_000


def choosing(site: Site) -> Iterator[str]:
    """Of the public frontend, once lanes are told apart: how many ms a request has left, if it has a deadline."""
    if not site.trust.due:
        return
    before = ""
    for name in site.trust.deadline_headers:
        yield from (f"{line}{before}" for line in _told(name))
        before += f" !{{ req.fhdr({name}) -m found }}"
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


def using(site: Site) -> Iterator[str]:
    """Of the public frontend, before the lanes' backends."""
    if site.trust.due:
        yield f"use_backend {NAME} if {_FOUND}"


def limit(site: Site) -> Iterator[str]:
    """Of a backend that what has a deadline reaches without the hop: its time in the worker."""
    if site.trust.due:
        yield f"http-request set-timeout server var({_DUE}) if {_FOUND}"


def sections(site: Site) -> Iterator[list[str]]:
    """The backend, and the frontend behind it."""
    if not site.trust.due:
        return
    where = word(own_socket(site, NAME))
    yield section(f"backend {NAME}", [
        *limit(site),
        'http-error status 504 content-type text/plain string "deadline exceeded\\n"',
        f"server {PLACES} {where}",
        "retries 0",
        "http-reuse never  # an idle connection to itself would keep a HAProxy that is to finish",
    ])  # fmt: skip
    yield section(f"frontend behind-{NAME}", [
        f"bind {where} mode 600",
        *_lanes_again(site.layout),
        ONCE,
        *told_apart.using(site.layout),
    ])  # fmt: skip


def _lanes_again(layout: Layout) -> Iterator[str]:
    """The lane is known already: the public frontend has written it."""
    yield f"http-request set-var(txn.lane) req.hdr({told_apart.LANE_HEADER})"
    yield from told_apart.priorities(layout)


def _told(name: str) -> Iterator[str]:
    """A header's time in ms. What makes no sense is none, as for the workers."""
    field = f"req.fhdr({name})"
    if name != _GRPC:
        form = word("^[0-9]{1,9}([.][0-9]{1,6})?$")
        yield f"http-request set-var({_DUE}) {field},field(1,.),add(0) if {{ {field} -m reg {form} }}"
        return
    for unit, in_ms in _GRPC_UNITS:
        form = word(f"^[0-9]{{1,8}}{unit}$")
        yield f"http-request set-var({_DUE}) {field},field(1,{unit}),{in_ms} if {{ {field} -m reg {form} }}"
