"""Lanes of the settings as a front sees them: what they match, in which order, and which workers serve them. Pure.

A front sees the request line and not the framework's route, so what a route leaves open (`<id>` of Flask, `{id}` of
Starlette) stands for one part of a path here. A *place* is room for one request in a worker: workers times the requests
that each gets at once. docs/design/0017-serve.md says why.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from greenlane.errors import SettingsError
from greenlane.policy.cores import usable_cores
from greenlane.settings import APART, Lane
from greenlane_serve.settings import ServeSettings

_METHOD_AND_PATH: Final = re.compile(r"([A-Z*?\[\]!-]+) +(/.*|\*.*)")
# What a framework's route leaves open; converters of Flask's kind (`<path:rest>`) may span several parts.
_OPEN: Final = re.compile(r"<(?:(?P<converter>[^<>:]+):)?[^<>]+>|\{[^{}:]+(?::(?P<kind>[^{}]+))?\}")
# What clients leave as it is, and what a glob means by itself; a `%` of the glob is a character of the decoded path.
_KEPT: Final = "/!$&'()*+,;=:@-._~?[]<>{}^"
# Stand for what a `*` takes when two globs are compared: nothing, and something that no other glob contains.
_TAKEN: Final = ("", "\x01\x02")


@dataclass(frozen=True)
class Match:
    """One glob of a lane. `method` "" = any."""

    method: str
    path: str

    @property
    def method_regex(self) -> str:
        """For the whole method; "" = any."""
        return _regex(self.method) if self.method not in ("", "*") else ""

    @property
    def path_regex(self) -> str:
        """For the whole path, decoded. POSIX-free, PCRE and Python's `re` alike."""
        return _regex(self.path)

    @property
    def prefix(self) -> str | None:
        """The path up to its `*` when nothing else in it is open: a front tests that faster. None = it is not so."""
        begins = self.path.removesuffix("*")
        return begins if begins != self.path and _is_plain(begins) else None

    @property
    def exact(self) -> str | None:
        """The path when nothing in it is open."""
        return self.path if _is_plain(self.path) else None

    def whole_regex(self, between: str, *, any_method: str = "[^:]*") -> str:
        """For method and path in one text."""
        method = self.method_regex.removeprefix("^").removesuffix("$") or any_method
        return f"^{method}{between}{self.path_regex.removeprefix('^')}"

    @property
    def encoded(self) -> Match:
        """The same for a path as it stands in a request line, for fronts that compare before they decode: other
        characters are written %XX. What stands in `[…]` is left alone."""
        return Match(self.method, quote(self.path, safe=_KEPT))

    def covers(self, other: Match) -> bool:
        """Whether every request that `other` matches is matched by this one.

        True is certain except for a route's open parts, which are compared as they are written.
        """
        return _covers(self.method or "*", other.method or "*") and _covers(self.path, other.path)


def parse(glob: str, *, setting: str) -> Match:
    """The match that a glob stands for.

    Raises:
        SettingsError: it is neither a path nor a method and a path, which is all that a front sees.
    """
    if glob.startswith(("/", "*")) and not re.match(r"\*+ ", glob):
        return Match("", glob)
    found = _METHOD_AND_PATH.fullmatch(glob)
    if found is None:
        rule = "a glob on a path, with or without a method: the front sees no other route"
        raise SettingsError(setting, glob, rule, "write '/path*' or 'GET /path*'", attempted="read the lanes")
    return Match(found[1], found[2])


def _is_plain(path: str) -> bool:
    return not re.search(r"[*?\[\]<{]", path)


def _covers(wide: str, narrow: str) -> bool:
    return all(fnmatch.fnmatchcase(narrow.replace("*", taken), wide) for taken in _TAKEN)


def _regex(glob: str) -> str:
    """`^…$` of a glob; open parts of a route become one part of a path, or several where they say so."""
    pieces, place = [], 0
    for found in _OPEN.finditer(glob):
        pieces += [_translated(glob[place : found.start()]), _open_part(found)]
        place = found.end()
    return "^" + "".join([*pieces, _translated(glob[place:])]) + "$"


def _open_part(found: re.Match[str]) -> str:
    return ".*" if "path" in (found["converter"], found["kind"]) else "[^/]+"


def _translated(glob: str) -> str:
    """Python's own translation uses groups that other engines may lack; the language is small enough."""
    out, place = [], 0
    while place < len(glob):
        one = glob[place]
        place += 1
        end = glob.find("]", place + 1) if one == "[" else -1
        if one == "*":
            out.append(".*")
        elif one == "?":
            out.append(".")
        elif end > 0:
            inside = glob[place:end].replace("\\", "\\\\").replace("^", "\\^")
            out.append(f"[^{inside[1:]}]" if inside.startswith("!") else f"[{inside}]")
            place = end + 1
        else:
            out.append(re.escape(one))
    return "".join(out)


_READ_LANES = "read the lanes"


@dataclass(frozen=True)
class FrontLane:
    """Jobs with a common rule, at the front. `REST` is that of all that no lane matches."""

    name: str
    matches: tuple[Match, ...] = ()
    # Header's name in lower case -> regular expression for its value; all must hold.
    headers: tuple[tuple[str, str], ...] = ()
    hard: bool = False
    # Workers that are kept for it.
    processes: int = 0
    # Higher goes first.
    priority: int = 0
    # Longest wait in a queue; 0 = as long as anybody.
    deadline_ms: float = 0.0
    # Most requests in progress over all workers; 0 = no bound of its own.
    at_once: int = 0
    # Routes come into it live, by the map `haproxy.assigned`.
    auto: bool = False

    @property
    def gate(self) -> str:
        """The backend of its gate, for a lane that has one."""
        return f"gate-{self.name}" if self.name else "gate"


#: What no lane matches. No lane of the settings can have this name.
REST = FrontLane("")


def lanes_of(settings: ServeSettings, *, live: bool = True) -> tuple[FrontLane, ...]:
    """The lanes in the order in which they are tried, without `REST`.

    Args:
        settings: of the service.
        live: whether somebody measures routes while the front serves.

    Raises:
        SettingsError: a glob that no front can test, a lane whose every request goes to an earlier one, a hard lane
            without workers.
    """
    lanes = tuple(_lane(lane) for lane in settings.lanes)
    if live and settings.assigns:
        return (FrontLane(APART, priority=-1, auto=True),)
    for number, lane in enumerate(lanes):
        for earlier in lanes[:number]:
            _refuse_hidden(lane, earlier)
    return lanes


def _lane(lane: Lane) -> FrontLane:
    place = f"lanes.{lane.name}"
    if lane.kind == "hard" and not lane.processes:
        hint = f"add processes = 1 to [{place}], or leave out its kind"
        raise SettingsError(f"{place}.processes", 0, "at least 1 for a hard lane", hint, attempted=_READ_LANES)
    return FrontLane(
        name=lane.name,
        matches=tuple(parse(glob, setting=f"{place}.match") for glob in lane.match),
        headers=_headers(lane.headers),
        hard=lane.kind == "hard",
        processes=lane.processes,
        priority=lane.priority,
        deadline_ms=lane.deadline_ms,
        at_once=lane.at_once,
    )


def _headers(headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple((name.lower(), Match("", glob).path_regex) for name, glob in headers.items())


def _refuse_hidden(lane: FrontLane, earlier: FrontLane) -> None:
    """A glob that only repeats an earlier lane's never gets a request: most likely the order is not what was meant."""
    if not set(earlier.headers) <= set(lane.headers):
        return  # the earlier one asks for more
    for match in lane.matches:
        hiding = next((one for one in earlier.matches if one.covers(match)), None)
        if hiding is not None:
            glob = f"{match.method} {match.path}".strip()
            wide = f"{hiding.method} {hiding.path}".strip()
            raise SettingsError(
                f"lanes.{lane.name}.match", glob,
                f"requests that lane {earlier.name!r} above it does not take already with {wide!r}",
                f"move [lanes.{lane.name}] above [lanes.{earlier.name}], or narrow one of them", attempted=_READ_LANES,
            )  # fmt: skip


#: The group, and the backend, of the workers that every soft lane may use.
SHARED: Final = "shared"
#: Requests at once per worker until something is measured, if the settings allow as many: those of a service that only
#: waits are let in from the start. As many as the threads of a WSGI worker.
FIRST_AT_ONCE: Final = 64


@dataclass(frozen=True)
class Layout:
    """Lanes and groups of workers."""

    # In the order in which they are tried, `REST` last.
    lanes: tuple[FrontLane, ...]
    # Group -> workers: `shared`, and each hard lane.
    groups: dict[str, int]

    def group_of(self, lane: FrontLane) -> str:
        """The group whose workers serve the lane."""
        return f"lane-{lane.name}" if lane.hard else SHARED

    def most(self, lane: FrontLane, at_once: int) -> int:
        """Places that a lane may take of its group, with `at_once` requests per worker; all of them = no gate."""
        workers = self.groups[self.group_of(lane)]
        others = 0 if lane.hard else sum(one.processes for one in self.lanes if one is not lane and not one.hard)
        places = max(1, workers - others) * at_once
        return min(places, lane.at_once or places)

    def gated(self, lane: FrontLane) -> bool:
        """Whether the lane has a queue of its own in front of its group's, because it may not take every place."""
        others = any(one.processes and not one.hard for one in self.lanes if one is not lane)
        return bool(lane.at_once) or (others and not lane.hard)


def layout_of(settings: ServeSettings, *, live: bool = True) -> Layout:
    """The layout of the settings; `live`: see `lanes_of`.

    Raises:
        SettingsError: see `lanes_of`; or more workers are kept for lanes than there are.
    """
    lanes = lanes_of(settings, live=live)
    workers = settings.workers or max(2, usable_cores())
    kept = sum(lane.processes for lane in lanes)
    if kept >= workers:
        rule = f"over {kept}, what the lanes keep ({_listed(lanes)}): nothing would be left for the rest"
        hint = f"set workers = {kept + 1} or more, or lower a lane's processes"
        raise SettingsError("workers", workers, rule, hint, attempted="share the workers among the lanes")
    groups = {SHARED: workers - sum(lane.processes for lane in lanes if lane.hard)}
    groups.update({f"lane-{lane.name}": lane.processes for lane in lanes if lane.hard})
    return Layout((*lanes, REST), groups)


def _listed(lanes: tuple[FrontLane, ...]) -> str:
    return ", ".join(f"{lane.name} {lane.processes}" for lane in lanes if lane.processes)
