"""A glob of a lane's `match` as a front tests it: a method and a path, each as a regular expression.

A front sees the request line and not the framework's route, so what a route leaves open (`<id>` of Flask, `{id}` of
Starlette) stands for one part of a path here. The method may be a glob too (`* /bikes`); without one all are meant.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from typing import Final

from greenlane.errors import SettingsError

__all__ = ["Match", "parse"]

_METHOD_AND_PATH: Final = re.compile(r"([A-Z*?\[\]!-]+) +(/.*|\*.*)")
# What a framework's route leaves open; converters of Flask's kind (`<path:rest>`) may span several parts.
_OPEN: Final = re.compile(r"<(?:(?P<converter>[^<>:]+):)?[^<>]+>|\{[^{}:]+(?::(?P<kind>[^{}]+))?\}")
# Stand for what a `*` takes when two globs are compared: nothing, and something that no other glob spells.
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

    def covers(self, other: Match) -> bool:
        """Whether every request that `other` matches is matched by this one.

        True is certain but for a route's open parts, which are compared as they are written.
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
