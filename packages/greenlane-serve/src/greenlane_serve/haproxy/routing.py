"""Where a request goes: lines of the public frontend, and the map of routes with a lane. Pure, except that map.

Lanes are matched first. Other requests may get a lane from the map: a route is what the framework calls it (`GET
/bikes/<id>`), the front sees method and path, so each is a regular expression on both, written together, and the first
that matches counts. Routes that such an expression would take from another one (`GET /bikes/popular`) stand before it,
without a lane.

A WebSocket lasts for hours and mostly sleeps. Counted as a request in progress, `at_once` of them would fill a worker.
So each group has a second backend on the same sockets, with a limit of its own.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from greenlane.errors import SettingsError
from greenlane_serve.haproxy.requests import SOCKET, START
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.haproxy.site import Site, milliseconds, section, word
from greenlane_serve.lanes import SHARED, FrontLane, Layout, Match, parse

#: In the folder of the front; there from the start on.
FILE: Final = "routes.map"
#: Value of a route without a lane; no lane has this name, since it has a character that names have not.
NO_LANE: Final = "/"
# A route whose first part is open takes what no other route takes: the front cannot tell which those are.
_OPEN_FIRST: Final = re.compile(r"/[^/]*[*?\[<{]")


def assigned(lane: str, apart: Iterable[str], others: Iterable[str]) -> list[tuple[str, str]]:
    """(expression on method and path, lane) in the order in which they are tried.

    Args:
        lane: that of the routes `apart`; those that no front can tell are left out.
        others: routes that must not go with them.
    """
    taken = [match for match in map(_match, apart) if match is not None]
    kept = [match for match in map(_match, others) if match is not None and any(_takes(one, match) for one in taken)]
    rows = [(_key(match), NO_LANE) for match in kept] + [(_key(match), lane) for match in taken]
    return [row for row in dict(rows).items() if not re.search(r"\s", row[0])]


def change(path: Path, rows: Iterable[tuple[str, str]], runtime: Runtime | None) -> None:
    """Write the file, for a front that is started, and let the one that runs go over to it between two requests.

    Raises:
        ServeError: the front does not answer or refuses. The file is written.
    """
    lines = [f"{key} {lane}" for key, lane in rows]
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(f"{line}\n" for line in lines))
    fresh.replace(path)
    if runtime is not None:
        runtime.replace_map(path, lines, attempted="assign routes to lanes")


def _match(route: str) -> Match | None:
    try:
        match = parse(route, setting="route")
    except SettingsError:
        return None  # no path: an endpoint's name
    return None if _OPEN_FIRST.match(match.path) or not match.path.startswith("/") else match


def _key(match: Match) -> str:
    return match.whole_regex("", any_method="[A-Z]+").replace(r"\ ", r"\x20")


def _takes(wide: Match, narrow: Match) -> bool:
    """Whether a request of `narrow` could go with `wide`; what is open in it stands for one part of a path."""
    if wide.method not in ("", narrow.method):
        return False
    path = re.sub(r"<[^<>]*>|\{[^{}]*\}|\*", "x", narrow.path)
    return wide.path != narrow.path and re.fullmatch(wide.path_regex, path) is not None


#: Tells a worker the lane of a request; "" = none. A client's own is removed.
LANE_HEADER: Final = "x-greenlane-lane"


# Decoded once, however many lanes compare it.
_PATH_LINE: Final = "http-request set-var(txn.path) path,url_dec"


def choosing_lane(layout: Layout, folder: Path) -> Iterator[str]:
    """The first lane that matches is a request's lane."""
    lane_is = "var(txn.lane)"
    if any(lane.matches or lane.auto for lane in layout.lanes):
        yield _PATH_LINE
    for number, lane in enumerate(layout.lanes):
        first = "" if number == 0 else f" !{{ {lane_is} -m found }}"
        for match in lane.matches:
            conditions = _conditions(lane, match.method_regex, _path_test(match))
            yield f"http-request set-var(txn.lane) str({word(lane.name)}) if {conditions}{first}"
    for lane in layout.lanes:
        if lane.auto:
            yield from _assigned(lane, folder / FILE)
    for lane in layout.lanes:
        if lane.name:
            yield f"http-request set-header {LANE_HEADER} {word(lane.name)} if {{ {lane_is} -m str {word(lane.name)} }}"
        yield from _priority(lane)


def using_lanes(layout: Layout) -> Iterator[str]:
    """Where each lane's requests go."""
    for lane in layout.lanes:
        backend = lane.gate if layout.gated(lane) else layout.group_of(lane)
        if lane.name:
            yield f"use_backend {backend} if {{ var(txn.lane) -m str {word(lane.name)} }}"
        else:
            yield f"default_backend {backend}"


def priorities(layout: Layout) -> Iterator[str]:
    """The order in a queue."""
    for lane in layout.lanes:
        yield from _priority(lane)


def _priority(lane: FrontLane) -> Iterator[str]:
    if lane.name and lane.priority:
        yield f"http-request set-priority-class int({-lane.priority}) if {{ var(txn.lane) -m str {word(lane.name)} }}"


def _assigned(lane: FrontLane, file: Path) -> Iterator[str]:
    """What no lane matches may be in the map, which changes live."""
    left, said = "!{ var(txn.lane) -m found }", f"{{ var(txn.assigned) -m str {word(lane.name)} }}"
    looked_up = f"method,concat(,txn.path),map_reg({word(str(file))})"
    yield f"http-request set-var(txn.assigned) {looked_up} if {left}"
    yield f"http-request set-var(txn.lane) str({word(lane.name)}) if {left} {said}"


def _path_test(match: Match) -> str:
    if match.exact is not None:
        return f"-m str {word(match.exact)}"
    if match.prefix is not None:
        return f"-m beg {word(match.prefix)}"
    return f"-m reg {word(match.path_regex)}"


def _conditions(lane: FrontLane, method_regex: str, path_test: str) -> str:
    tests = [f"{{ var(txn.path) {path_test} }}"]
    if method_regex:
        tests.append(f"{{ method -m reg {word(method_regex)} }}")
    tests += [f"{{ req.fhdr({name}) -m reg {word(regex)} }}" for name, regex in lane.headers]
    return " ".join(tests)


_SOCKETS: Final = "sockets-"


def sockets_backend(group: str) -> str:
    """The backend of a group's WebSockets."""
    return _SOCKETS + group


def using_sockets(layout: Layout) -> Iterator[str]:
    """Which backend a WebSocket goes to: of the public frontend, before its other backends."""
    for lane in layout.lanes:
        if lane.hard:
            mine = f"{{ var(txn.lane) -m str {lane.name} }}"
            yield f"use_backend {sockets_backend(layout.group_of(lane))} if {SOCKET} {mine}"
    yield f"use_backend {sockets_backend(SHARED)} if {SOCKET}"


def twins(configuration: str) -> dict[str, str]:
    """Group -> the backend of its WebSockets, in a configuration."""
    groups = re.findall(rf"^backend {_SOCKETS}(\S+)$", configuration, re.MULTILINE)
    return {group: sockets_backend(group) for group in groups}


# --- Backends whose one server is a socket of this HAProxy itself: gates of lanes, and answers at a deadline. Pure.


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
