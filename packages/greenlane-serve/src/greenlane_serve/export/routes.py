"""HTTPRoutes of the Gateway API: each lane's requests to the Service of its pods, with its deadline."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from greenlane.errors import SettingsError
from greenlane_serve.export.precedence import Clash, Rule, clashes
from greenlane_serve.lanes import FrontLane, Layout, Match

__all__ = ["doubts", "http_routes"]

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
