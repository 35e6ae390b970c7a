"""The file of a HAProxy before many `greenlane serve`: the same text as theirs, with servers for workers."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Final

from greenlane_serve.export.fleet import Fleet, refuse
from greenlane_serve.haproxy.configuration import configuration
from greenlane_serve.haproxy.site import FrontServer, Site, word
from greenlane_serve.trust import Trust, trust_of

_HEAD: Final = """\
# Written by `greenlane export haproxy`. Each server is a `greenlane serve`; {fronts}.
# A server gets at most the requests that its workers take at once. What is more waits here, in one queue for all
# servers, and goes to the first that has room.

"""


def text(fleet: Fleet, listen: str, folder: Path, connections: int = 10_000) -> str:
    """The whole file.

    Args:
        listen: after `bind`.
        folder: where its runtime socket is.
        connections: at once, its own included; HAProxy does not start where RLIMIT_NOFILE is less than twice that.
    """
    refuse("haproxy", fleet.settings)
    health = fleet.settings.health_path
    servers = {
        group: [FrontServer(one.name, one.address, fleet.places(group), True, "check inter 2s") for one in instances]
        for group, instances in fleet.instances.items()
    }
    site = Site(
        fleet.whole(), servers, [listen], folder, dict.fromkeys(fleet.layout.groups, 1),
        health_path=health, queue_s=fleet.settings.queue_s, head_timeout_s=fleet.settings.head_timeout_s,
        retry_after_s=fleet.settings.retry_after_s, gates=_gates(listen),
        connections=connections, trust=_trust(fleet),
        group_lines=[f"option httpchk GET {word(health)}"] if health else [],
    )  # fmt: skip
    fronts = "this is the only front" if fleet.fronts == 1 else f"this is one of {fleet.fronts} fronts"
    return _HEAD.format(fronts=fronts) + configuration(site)


def _trust(fleet: Fleet) -> Trust:
    """As the servers', of which each bears the WebSockets of its workers."""
    sockets = fleet.settings.websockets * min(fleet.layout.groups.values()) // fleet.fronts
    return replace(trust_of(fleet.settings), websockets=sockets)


def _gates(listen: str) -> str:
    """Abstract sockets: reached from inside a chroot, and by the user that HAProxy becomes; one name a machine."""
    return f"abns@greenlane-{re.sub('[^0-9A-Za-z]+', '-', listen).strip('-')}-"
