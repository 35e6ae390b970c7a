"""Which lane a route has that no lane matches: a map of HAProxy, in a file and changed live in one step.

A route is what the framework calls it (`GET /bikes/<id>`); the front sees method and path. So each is a regular
expression on both, written together, and the first that matches counts. Routes that such an expression would take from
another one (`GET /bikes/popular`) stand before it, without a lane.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from greenlane.errors import FleetError, SettingsError
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.match import Match, parse

__all__ = ["FILE", "NO_LANE", "assigned", "change"]

#: In the folder of the front; there from the start on.
FILE: Final = "routes.map"
#: Value of a route without a lane; no lane has this name, since it has a character that names have not.
NO_LANE: Final = "/"
_PIECE: Final = 8000
# A route whose first part is open stands for whatever no other route takes: the front cannot tell which those are.
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
        FleetError: the front does not answer or refuses. The file is written.
    """
    lines = [f"{key} {lane}\n" for key, lane in rows]
    fresh = path.with_suffix(".new")
    fresh.write_text("".join(lines))
    fresh.replace(path)
    if runtime is None:
        return
    said = runtime.ask(f"prepare map {path}")
    version = re.search(r"(\d+)\s*$", said)
    if version is None:
        raise _refused(f"prepare map {path}", said)
    for some in _pieces(lines):
        _quiet(runtime, f"add map @{version[1]} {path} <<\n{some}")
    _quiet(runtime, f"commit map @{version[1]} {path}")


def _pieces(lines: list[str]) -> Iterator[str]:
    """HAProxy takes no command that is larger than its buffer of 16 KB."""
    piece = ""
    for line in lines:
        if len(piece) + len(line) > _PIECE:
            yield piece
            piece = ""
        piece += line
    if piece:
        yield piece


def _quiet(runtime: Runtime, command: str) -> None:
    said = runtime.ask(command).strip()
    if said:
        raise _refused(command.partition("\n")[0], said)


def _refused(command: str, said: str) -> FleetError:
    rule = f"one that the front accepts; it says: {said.strip() or 'nothing'}"
    return FleetError("assign routes to lanes", name="command", value=command, rule=rule)


def _match(route: str) -> Match | None:
    try:
        match = parse(route, setting="route")
    except SettingsError:
        return None  # no path: an endpoint's name
    return None if _OPEN_FIRST.match(match.path) or not match.path.startswith("/") else match


def _key(match: Match) -> str:
    method = match.method_regex.strip("^$") or "[A-Z]+"
    path = match.path_regex.removeprefix("^").replace(r"\ ", r"\x20")
    return f"^{method}{path}"


def _takes(wide: Match, narrow: Match) -> bool:
    """Whether a request of `narrow` could go with `wide`; what is open in it stands for one part of a path."""
    if wide.method not in ("", narrow.method):
        return False
    path = re.sub(r"<[^<>]*>|\{[^{}]*\}|\*", "x", narrow.path)
    return wide.path != narrow.path and re.fullmatch(wide.path_regex, path) is not None
