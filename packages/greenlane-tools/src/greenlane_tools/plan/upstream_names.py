"""Whose an I/O stretch is: the upstream that a client's probe named, else the peer of the call, else nobody's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from greenlane_tools.plan.steps import NOBODY, Kind
from greenlane_tools.plan.timeline import Named
from greenlane_tools.reader.rows import Call, Held, Segment

__all__ = ["RouteUpstreams", "Upstreams"]

#: Process and job: whose life it is.
Who = tuple[int, int]

#: Kinds of I/O that have a peer.
_WITH_PEER: Final = ("socket", "ssl", "driver")
#: Ports that are given to clients: a peer there is who asked us, and another one each time.
_CLIENTS_PORT: Final = 32768
_PORT: Final = re.compile(r":(\d+)$")
#: Of a route that calls more, the rest is nobody's.
_MOST: Final = 32
#: A call that blocks its loop for this share of its time is one that does.
_HELD_FRAC: Final = 0.5


class Upstreams:
    """Calls of a recording, and what blocked a whole loop in it."""

    def __init__(self, calls: Iterable[Call], held: Iterable[Held]) -> None:
        self._calls: dict[Who, list[Call]] = {}
        for call in calls:
            self._calls.setdefault((call.process, call.job), []).append(call)
        self._held: dict[str, dict[str, int]] = {}
        for row in held:
            of = self._held.setdefault(row.route, {})
            of[row.call] = of.get(row.call, 0) + row.ns

    def of_route(self, route: str, lives: Mapping[Who, Sequence[Segment]], sampled_frac: float) -> RouteUpstreams:
        """The names of one route's stretches.

        Args:
            lives: of the requests that are sampled.
            sampled_frac: how many of all its requests they are.
        """
        calls = {who: self._calls.get(who, []) for who in lives}
        return RouteUpstreams(calls, lives, self._held.get(route, {}), sampled_frac)


class RouteUpstreams:
    """Names of the I/O of one route's sampled requests."""

    def __init__(
        self,
        calls: Mapping[Who, Sequence[Call]],
        lives: Mapping[Who, Sequence[Segment]],
        held_ns: Mapping[str, int],
        sampled_frac: float,
    ) -> None:
        self._calls = calls
        by_name: dict[str, int] = {}
        by_label: dict[str, int] = {}
        for who, life in lives.items():
            for segment in life:
                if segment.state == "io":
                    ns = segment.to_ns - segment.from_ns
                    name = self._name(who, segment)
                    by_name[name] = by_name.get(name, 0) + ns
                    by_label[segment.label] = by_label.get(segment.label, 0) + ns
        by_name.pop("", None)
        most = sorted(by_name, key=lambda name: (-by_name[name], name))[:_MOST]
        #: Upstreams of the route, by name.
        self.names: tuple[str, ...] = tuple(sorted(most))
        self._index = {name: number for number, name in enumerate(self.names)}
        self._held = {
            label for label, ns in by_label.items() if held_ns.get(label, 0) * sampled_frac >= _HELD_FRAC * max(1, ns)
        }

    def named(self, who: Who) -> Named:
        """What the stretches of one request are: kind of step and index of the upstream."""

        def name(segment: Segment) -> tuple[Kind, int]:
            kind: Kind = "held" if segment.label in self._held else "io"
            return kind, self._index.get(self._name(who, segment), NOBODY)

        return name

    def _name(self, who: Who, segment: Segment) -> str:
        peer = _peer(segment)
        for call in self._calls.get(who, ()):
            if call.from_ns <= segment.from_ns and segment.to_ns <= call.to_ns:
                return call.upstream or peer or call.operation
        return peer


def _peer(segment: Segment) -> str:
    if segment.kind not in _WITH_PEER:
        return ""
    peer = segment.label.partition(" ")[2]
    port = _PORT.search(peer)
    return "" if port and int(port[1]) >= _CLIENTS_PORT else peer
