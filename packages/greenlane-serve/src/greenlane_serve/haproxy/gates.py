"""Gates: a lane that may not take every place of its group waits in a backend of its own. Pure.

Its one server leads, through a socket of this HAProxy itself, to the group's backend; `maxconn` there is the lane's
places.
"""

from __future__ import annotations

from typing import Final

from greenlane_serve.haproxy.site import Site
from greenlane_serve.haproxy.words import milliseconds, section, word
from greenlane_serve.lanes import FrontLane
from greenlane_serve.layout import SHARED

__all__ = ["ONCE", "PLACES", "behind", "behind_before", "gate", "gate_name", "own_socket"]

#: The one server of a gate.
PLACES: Final = "places"
#: Of every frontend: only what is safe is sent twice.
ONCE: Final = "http-request disable-l7-retry unless METH_GET or { method OPTIONS TRACE }"


def gate_name(lane: FrontLane) -> str:
    """The backend of a lane's gate; its one server is `PLACES`."""
    return f"gate-{lane.name}" if lane.name else "gate"


def gate(site: Site, lane: FrontLane) -> list[str]:
    """The backend in which a lane waits: its one server is the way to its group, with the lane's places."""
    places = site.layout.most(lane, site.at_once[site.layout.group_of(lane)])
    lines = [
        f"server {PLACES} {word(own_socket(site, gate_name(lane)))} maxconn {places}",
        "retries 0",
        "http-reuse never  # an idle connection to itself would keep a HAProxy that is to finish",
    ]
    if lane.deadline_ms:
        lines.insert(0, f"timeout queue {milliseconds(lane.deadline_ms / 1000)}")
    return section(f"backend {gate_name(lane)}", lines)


def behind(site: Site, lane: FrontLane) -> list[str]:
    """The frontend behind a gate, which leads to the lane's group."""
    lines = [f"bind {word(own_socket(site, gate_name(lane)))} mode 600"]
    if lane.priority:
        lines.append(f"http-request set-priority-class int({-lane.priority})")
    lines.append(ONCE)
    lines.append(f"default_backend {site.layout.group_of(lane)}")
    return section(f"frontend behind-{gate_name(lane)}", lines)


def behind_before(site: Site, name: str) -> list[str]:
    """Behind a gate of the configuration before, which is none any more."""
    return section(f"frontend behind-{name}", [
        f"bind {word(own_socket(site, name))} mode 600",
        ONCE,
        f"default_backend {SHARED}",
    ])  # fmt: skip


def own_socket(site: Site, name: str) -> str:
    """Address of a socket on which this HAProxy listens for itself."""
    return f"{site.gates or f'unix@{site.folder}/'}{name}"
