"""The lanes of the settings as a front sees them, in the order in which they are tried; and what cannot hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from greenlane.errors import SettingsError
from greenlane.settings import APART, Lane, Settings
from greenlane_serve.match import Match, parse

__all__ = ["APART", "REST", "FrontLane", "lanes_of"]

_ATTEMPT = "read the lanes"


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
    # Workers whose places it leaves to others, though they are kept for nobody.
    leaves: int = 0


#: What no lane matches. No lane of the settings can have this name.
REST = FrontLane("")


def lanes_of(settings: Settings) -> tuple[FrontLane, ...]:
    """The lanes in the order in which they are tried, without `REST`.

    Raises:
        SettingsError: a glob that no front can test, a lane whose every request goes to an earlier one, a hard lane
            without workers.
    """
    lanes = _with_apart(tuple(_lane(lane) for lane in settings.lanes), settings)
    for number, lane in enumerate(lanes):
        for earlier in lanes[:number]:
            _refuse_hidden(lane, earlier)
    return lanes


def _with_apart(lanes: tuple[FrontLane, ...], settings: Settings) -> tuple[FrontLane, ...]:
    """Lane `apart` waits last; with `auto_lane` it also leaves one worker to everybody else, so that any number of
    heavy requests keeps nobody waiting."""
    if not settings.assigns:
        return lanes
    if not settings.auto_lane:
        return (*lanes, FrontLane(APART, priority=-1, auto=True))
    if all(lane.name != APART for lane in lanes):
        return (*lanes, FrontLane(APART, priority=-1, auto=True, leaves=1))
    return tuple(
        replace(lane, auto=True, leaves=0 if lane.hard else 1) if lane.name == APART else lane for lane in lanes
    )


def _lane(lane: Lane) -> FrontLane:
    place = f"lanes.{lane.name}"
    if lane.kind == "hard" and not lane.processes:
        hint = f"add processes = 1 to [{place}], or leave out its kind"
        raise SettingsError(f"{place}.processes", 0, "at least 1 for a hard lane", hint, attempted=_ATTEMPT)
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
                f"move [lanes.{lane.name}] above [lanes.{earlier.name}], or narrow one of them", attempted=_ATTEMPT,
            )  # fmt: skip
