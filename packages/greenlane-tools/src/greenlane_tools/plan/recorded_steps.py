"""One recorded request as it would have been alone: its CPU and I/O in order, without what it waited for others.

Where several of its units do something at a moment it computes if one of them does, else it is in I/O if one of them
is: a wait beside I/O would not have made it longer. What is neither, is left out: waiting for the GIL, the loop, a
permit, a core is what a plan is to predict.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Final

from greenlane_tools.plan.route import NOBODY, Kind, Step, joined
from greenlane_tools.reader.rows import Call, Held, Segment

#: What a moment counts as; the first that is there.
_RANK: Final[Mapping[str, int]] = {"cpu": 0, "io": 1, "wait": 2}
#: After these others had the CPU because the request gave way; after the other kinds it was taken away.
_GIVES_WAY: Final = ("loop", "lock", "pool", "queue")
#: Most steps of a sequence; beyond it the shortest I/O is put to its neighbour.
_MOST_STEPS: Final = 200
#: Which step an I/O segment is: its kind, and its upstream by index.
Named = Callable[[Segment], tuple[Kind, int]]
Life = Sequence[Segment]
_KIND: Final = "dns"
#: A lookup counts as at most this many times the first decile of lookups. Arbitrary.
_TIMES: Final = 4
_FASTEST_FRAC: Final = 0.1
#: Process and job: whose life it is.
Who = tuple[int, int]
#: Kinds of I/O that have a peer.
_WITH_PEER: Final = ("socket", "ssl", "driver")
#: Ephemeral ports: a peer there is a client, with another port each time.
_CLIENTS_PORT: Final = 32768
_PORT: Final = re.compile(r":(\d+)$")
#: Of a route that calls more, the rest is nobody's.
_MOST: Final = 32
#: A call that blocks its loop for this share of its time is one that does.
_HELD_FRAC: Final = 0.5


def steps_of(segments: Iterable[Segment], named: Named) -> tuple[Step, ...]:
    """The steps; empty if nothing of it was seen.

    Args:
        segments: its life, as `Recording.segments` gives it.
    """
    steps: list[Step] = []
    for segment, ns in _laid(sorted(segments, key=lambda each: each.from_ns)):
        if segment.state == "cpu":
            steps.append(Step("cpu", ns / 1e6))
        elif segment.state == "io":
            kind, upstream = named(segment)
            steps.append(Step(kind, ns / 1e6, upstream))
        elif steps and segment.kind in _GIVES_WAY and steps[-1].kind == "cpu":
            steps.append(Step("io", 0.0, NOBODY))
    found = list(joined(steps))
    while len(found) > _MOST_STEPS and len(shorter := _shorter(found)) < len(found):
        found = shorter
    return joined(Step(step.kind, round(step.ms, 5), step.upstream) for step in found)


def _laid(segments: list[Segment]) -> Iterator[tuple[Segment, int]]:
    """What counts at each moment, as (segment, ns)."""
    if all(one.to_ns <= other.from_ns for one, other in pairwise(segments)):
        yield from ((each, each.to_ns - each.from_ns) for each in segments)
        return
    edges = sorted({at for each in segments for at in (each.from_ns, each.to_ns)})
    active: list[Segment] = []
    next_ = 0
    for from_ns, to_ns in pairwise(edges):
        active = [each for each in active if each.to_ns > from_ns]
        while next_ < len(segments) and segments[next_].from_ns <= from_ns:
            active.append(segments[next_])
            next_ += 1
        if active:
            yield min(active, key=lambda each: _RANK.get(each.state, 2)), to_ns - from_ns


def _shorter(steps: list[Step]) -> list[Step]:
    """The same without the shorter half of the I/O between other steps; its time goes to the I/O behind it."""
    inner = [number for number in range(1, len(steps) - 1) if steps[number].kind in ("io", "held")]
    inner.sort(key=lambda number: steps[number].ms)
    drop = set(inner[: max(1, len(inner) // 2)])
    kept: list[Step] = []
    carried = 0.0
    for number, step in enumerate(steps):
        if number in drop:
            carried += step.ms
        elif step.kind in ("io", "held"):
            kept.append(Step(step.kind, step.ms + carried, step.upstream))
            carried = 0.0
        else:
            kept.append(step)
    return list(joined([*kept, Step("io", carried)] if carried else kept))


def shortened(lives: Mapping[tuple[int, int], Life]) -> dict[tuple[int, int], Life]:
    """The same lives with lookups cut to what they took when nobody was in their way."""
    took = sorted(each.to_ns - each.from_ns for life in lives.values() for each in life if _is_lookup(each))
    if not took:
        return dict(lives)
    most_ns = _TIMES * took[int(len(took) * _FASTEST_FRAC)]
    return {who: [_cut(each, most_ns) for each in life] for who, life in lives.items()}


def _is_lookup(segment: Segment) -> bool:
    return segment.state == "io" and segment.kind == _KIND


def _cut(segment: Segment, most_ns: int) -> Segment:
    return replace(segment, to_ns=min(segment.to_ns, segment.from_ns + most_ns)) if _is_lookup(segment) else segment


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
