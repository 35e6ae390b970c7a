"""HTTPRoutes of the Gateway API: each lane's requests to the Service of its pods, with its deadline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Any, Final, NamedTuple

from greenlane.errors import SettingsError
from greenlane_serve.lanes import FrontLane, Layout, Match

Node = dict[str, Any]
# A match names one method.
_METHODS: Final = ("GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH")
# What the Gateway API allows in a route.
_RULES, _MATCHES = 16, 64


def http_routes(layout: Layout, services: Mapping[str, str], name: str, gateway: str, host: str) -> Iterator[Node]:
    """As many as the lanes need.

    Which rule counts is the Gateway API's to say (the longest path, then a method, then headers), not their order.

    Args:
        services: group -> its Service.
        name: of the first; further ones are numbered.

    Raises:
        SettingsError: two lanes of which a gateway takes another one than `greenlane serve`.
    """
    for clash in _clashes(layout, services):
        if clash.taken is Rule.OTHER:
            first, second, (wide, narrow), _ = clash
            rule = f"requests that lane {first.name!r} above it leaves ({wide!r}): a gateway takes {second.name!r}"
            hint = f"move [lanes.{second.name}] above [lanes.{first.name}], or narrow one of them"
            raise SettingsError(f"lanes.{second.name}.match", narrow, rule, hint, attempted="write HTTPRoutes")
    rules = [rule for lane in layout.lanes for rule in _rules(lane, services[layout.group_of(lane)])]
    for number in range(0, len(rules), _RULES):
        spec: Node = {"parentRefs": [{"name": gateway}]}
        if host:
            spec["hostnames"] = [host]
        mine = f"{name}-{number // _RULES + 1}" if number else name
        yield {
            "apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": {"name": mine},
            "spec": {**spec, "rules": rules[number : number + _RULES]},
        }  # fmt: skip


def doubts(layout: Layout, services: Mapping[str, str]) -> Iterator[str]:
    """What a gateway may do in its own way, a line for two lanes each."""
    told = set()
    for first, second, (one, other), taken in _clashes(layout, services):
        if taken is Rule.UNKNOWN and (first, second) not in told:
            told.add((first, second))
            yield (
                f"lanes {first.name!r} ({one!r}) and {second.name!r} ({other!r}) match the same requests; greenlane"
                f" takes {first.name!r}, a gateway what it likes, since one is a regular expression there"
            )


def _clashes(layout: Layout, services: Mapping[str, str]) -> Iterator[Clash]:
    return clashes(layout.lanes, {lane.name: services[layout.group_of(lane)] for lane in layout.lanes})


def _rules(lane: FrontLane, service: str) -> Iterator[Node]:
    found = [one for match in lane.matches for one in _matches(match.encoded, lane)]
    for place in range(0, len(found), _MATCHES) if lane.name else [0]:
        rule: Node = {"backendRefs": [{"name": service, "port": 80}]}
        if lane.deadline_ms:
            rule["timeouts"] = {"request": _duration(lane.deadline_ms)}
        if lane.name:
            rule["matches"] = found[place : place + _MATCHES]
        yield rule


def _matches(match: Match, lane: FrontLane) -> Iterator[Node]:
    node: Node = {"path": _path(match)}
    if lane.headers:
        node["headers"] = [{"type": "RegularExpression", "name": name, "value": regex} for name, regex in lane.headers]
    if not match.method_regex:
        yield node
        return
    for method in _METHODS:
        if re.search(match.method_regex, method):
            yield {**node, "method": method}


def _duration(ms: float) -> str:
    """At most five digits a unit."""
    seconds, rest = divmod(max(1, round(ms)), 1000)
    return (f"{seconds}s" if seconds else "") + (f"{rest}ms" if rest else "")


def _path(match: Match) -> Node:
    """A prefix of the Gateway API ends at a `/`: `/bikes/` matches `/bikes/7`, and `/bikes` too."""
    if match.exact is not None:
        return {"type": "Exact", "value": match.exact}
    if match.prefix is not None and match.prefix.endswith("/"):
        return {"type": "PathPrefix", "value": match.prefix.rstrip("/") or "/"}
    return {"type": "RegularExpression", "value": match.path_regex}


class Rule(Enum):
    """Which of two lanes a gateway takes."""

    OTHER = "the later one"
    UNKNOWN = "each gateway's own choice"


class Clash(NamedTuple):
    """Two lanes that match the same requests, of which `serve` takes the first."""

    first: FrontLane
    second: FrontLane
    # A glob of each.
    globs: tuple[str, str]
    taken: Rule


def clashes(lanes: Sequence[FrontLane], services: Mapping[str, str]) -> Iterator[Clash]:
    """All that matter: the lanes have different Services, by `services`, or different deadlines.

    Cost: grows with the square of the globs; some 10 us a pair.
    """
    named = [lane for lane in lanes if lane.name]
    for number, first in enumerate(named):
        for second in named[number + 1 :]:
            if (services[first.name], first.deadline_ms) != (services[second.name], second.deadline_ms):
                yield from _between(first, second)


def _between(first: FrontLane, second: FrontLane) -> Iterator[Clash]:
    theirs = dict(second.headers)
    if any(_plain(regex) and _plain(theirs.get(name, "")) and regex != theirs[name] for name, regex in first.headers):
        return  # nobody sends both values
    for one in first.matches:
        for other in second.matches:
            if not meet(one.method or "*", other.method or "*") or not meet(one.path, other.path):
                continue
            mine, its = _rank(one, first), _rank(other, second)
            globs = f"{one.method} {one.path}".strip(), f"{other.method} {other.path}".strip()
            if mine is None or its is None:
                yield Clash(first, second, globs, Rule.UNKNOWN)
            elif mine < its:
                yield Clash(first, second, globs, Rule.OTHER)


def _plain(regex: str) -> bool:
    """Whether a header's expression is one value."""
    return re.fullmatch(r"\^(?:[^\\.*\[]|\\.)*\$", regex) is not None


def _rank(match: Match, lane: FrontLane) -> tuple[int, int, bool, int] | None:
    """The higher the sooner, ties by the order in the route; None = not given."""
    further = bool(match.method_regex), len(lane.headers)
    if match.exact is not None:
        return (1, 0, *further)
    if match.prefix is not None and match.prefix.endswith("/"):
        return (0, len(match.prefix.rstrip("/")), *further)
    return None


_PIECE: Final = re.compile(r"<[^<>]*>|\{[^{}]*\}|\[!?[^\]]+\]|.", re.DOTALL)


def meet(one: str, other: str) -> bool:
    """Whether some text matches both globs. Open parts (`<id>`) and `[…]` match anything, so True may be wrong."""
    left, right = _pieces(one), _pieces(other)

    @cache
    def from_here(at: int, there: int) -> bool:
        if at == len(left) and there == len(right):
            return True
        if at < len(left) and left[at] == "*":
            return from_here(at + 1, there) or (there < len(right) and from_here(at, there + 1))
        if there < len(right) and right[there] == "*":
            return from_here(at, there + 1) or (at < len(left) and from_here(at + 1, there))
        if at == len(left) or there == len(right):
            return False
        alike = left[at] == right[there] or "?" in (left[at], right[there])
        return alike and from_here(at + 1, there + 1)

    return from_here(0, 0)


def _pieces(glob: str) -> tuple[str, ...]:
    """Characters, `?` = any one, `*` = any number."""
    kinds = {"<": "*", "{": "*", "[": "?"}
    return tuple(kinds.get(piece[0], piece) if len(piece) > 1 else piece for piece in _PIECE.findall(glob))
