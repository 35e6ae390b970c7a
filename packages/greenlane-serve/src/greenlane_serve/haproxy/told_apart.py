"""Which lane is a request's: lines of the public frontend. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from greenlane_serve.haproxy.assigned import FILE
from greenlane_serve.haproxy.gates import gate_name
from greenlane_serve.haproxy.words import word
from greenlane_serve.lanes import FrontLane
from greenlane_serve.layout import Layout
from greenlane_serve.match import Match

__all__ = ["LANE_HEADER", "choosing", "priorities", "using"]

#: Tells a worker the lane of a request; "" = none. A client's own is removed.
LANE_HEADER: Final = "x-greenlane-lane"


def choosing(layout: Layout, folder: Path) -> Iterator[str]:
    """The first lane that matches is a request's lane."""
    lane_is = "var(txn.lane)"
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


def using(layout: Layout) -> Iterator[str]:
    """Where each lane's requests go."""
    for lane in layout.lanes:
        backend = gate_name(lane) if layout.gated(lane) else layout.group_of(lane)
        if lane.name:
            yield f"use_backend {backend} if {{ var(txn.lane) -m str {word(lane.name)} }}"
        else:
            yield f"default_backend {backend}"


def priorities(layout: Layout) -> Iterator[str]:
    """Who goes before whom in a queue."""
    for lane in layout.lanes:
        yield from _priority(lane)


def _priority(lane: FrontLane) -> Iterator[str]:
    if lane.name and lane.priority:
        yield f"http-request set-priority-class int({-lane.priority}) if {{ var(txn.lane) -m str {word(lane.name)} }}"


def _assigned(lane: FrontLane, file: Path) -> Iterator[str]:
    """What no lane matches may be in the map, which changes live."""
    left, said = "!{ var(txn.lane) -m found }", f"{{ var(txn.assigned) -m str {word(lane.name)} }}"
    yield f"http-request set-var-fmt(txn.route) %[method]%[path,url_dec] if {left}"
    yield f"http-request set-var(txn.assigned) var(txn.route),map_reg({word(str(file))}) if {left}"
    yield f"http-request set-var(txn.lane) str({word(lane.name)}) if {left} {said}"


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
