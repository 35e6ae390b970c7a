"""Which share of a route goes to another version of the application, and how a running front learns of it.

The front reads `diverted.map` in its folder: for each route a regular expression on `METHOD:PATH`, the version, and the
share in ten-thousandths. A change replaces the whole map between two requests; the file is what the next front reads.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import Final

from greenlane.errors import ArgumentError, SettingsError
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.lanes import parse

__all__ = ["MAP", "WHOLE", "Diverted", "change", "hidden_by", "keep", "lay", "read"]

#: The front's file.
MAP: Final = "diverted.map"
#: A share of 1.
WHOLE: Final = 10_000
_FILE: Final = "diverted.json"
_ATTEMPT: Final = "divert a route"
_NO_MAP: Final = "give the service a version: [versions] in greenlane.toml, and HUP"


@dataclass(frozen=True)
class Diverted:
    """How much of a route's requests goes to another version of the application, and who set it."""

    #: As a lane's `match`: "/bikes/*", "GET /bikes/<id>".
    flow: str
    #: The other version; "" = none was ever named.
    to: str = ""
    #: 0 to 1.
    share_frac: float = 0.0
    #: user@host; "" = not set.
    set_by: str = ""
    #: Seconds since the epoch, by the clock of the process that set it.
    set_s: float = 0.0


def lay(folder: Path) -> None:
    """Make the front's file where there is none: a front that names it does not start without one."""
    (folder / MAP).touch(mode=0o600)


def read(folder: Path) -> list[Diverted]:
    """All that was ever set, in the order in which the front looks: the first that matches counts."""
    try:
        return [Diverted(**row) for row in json.loads((folder / _FILE).read_text())]
    except FileNotFoundError:
        return []


def change(folder: Path, runtime: Runtime, wanted: Diverted) -> Diverted:
    """Set the share of one route, at the front and for the next one; what holds now.

    `wanted.to` "" = as before.

    Raises:
        SettingsError: the route is none, or no version was ever named.
        ServeError: the front does not answer, or refuses it. What held before still does.
    """
    with _locked(folder):
        before = read(folder)
        known = next((one for one in before if one.flow == wanted.flow), None)
        if not wanted.to and known is not None:
            wanted = replace(wanted, to=known.to)
        if not wanted.to and wanted.share_frac:
            raise SettingsError("--to", "", "the version that the share goes to", "name it once: --to NAME",
                                attempted=_ATTEMPT)  # fmt: skip
        after = [wanted if one is known else one for one in before] + ([] if known else [wanted])
        runtime.replace_map(folder / MAP, _lines(after), attempted=_ATTEMPT, named="versions", hint=_NO_MAP)
        _store(folder, after)
    return wanted


def hidden_by(shares: Sequence[Diverted], flow: str) -> str:
    """The route above `flow` that has a share and takes every request of it; "" = none.

    What a route leaves open (`<id>`) is compared as it is written.
    """
    match = parse(flow, setting="ROUTE")
    above = (one.flow for one in takewhile(lambda one: one.flow != flow, shares) if one.share_frac)
    return next((other for other in above if parse(other, setting="ROUTE").covers(match)), "")


def keep(folder: Path, versions: Container[str]) -> None:
    """Forget what went to other versions than these: one that comes back under its name gets nothing by itself.

    For the next front; one that runs has no way to a version that it does not know.
    """
    with _locked(folder):
        before = read(folder)
        after = [one for one in before if not one.to or one.to in versions]
        if after != before:
            _store(folder, after)


def _store(folder: Path, after: Sequence[Diverted]) -> None:
    _write(folder / MAP, "".join(f"{line}\n" for line in _lines(after)))
    _write(folder / _FILE, json.dumps([asdict(one) for one in after]))


def _lines(after: Sequence[Diverted]) -> list[str]:
    return [_line(one) for one in after if one.share_frac and one.to]


def _line(one: Diverted) -> str:
    """A key of the map is one word; what stands in a path and is none has no place in it."""
    match = parse(one.flow, setting="ROUTE")
    key = match.whole_regex(":").replace("\\ ", "\\x20").replace(" ", "\\x20")
    if not re.fullmatch(r"[!-~]+", key):
        rule = "a glob of printable ASCII"
        raise ArgumentError("ROUTE", one.flow, rule, "put a * or ? for what else there is", attempted=_ATTEMPT)
    return f"{key} {one.to}:{round(one.share_frac * WHOLE)}"


def _write(file: Path, text: str) -> None:
    fresh = file.with_name(f".{file.name}.{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(file)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One change at a time."""
    with (folder / f".{_FILE}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
