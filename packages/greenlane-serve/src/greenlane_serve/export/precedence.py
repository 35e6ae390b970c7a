"""Whether the Gateway API gives requests to the lane that `greenlane serve` gives them to.

`serve` goes by the order of the lanes. The Gateway API knows no order between what matches: an exact path counts before
a prefix, a longer prefix before a shorter one, then a method, then more headers; where a regular expression stands
among them is each gateway's own choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from functools import cache
from typing import Final, NamedTuple

from greenlane_serve.lanes import FrontLane, Match

__all__ = ["Clash", "Rule", "clashes", "meet"]


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
    """The higher the sooner, ties by the order in the route; None = nobody says."""
    further = bool(match.method_regex), len(lane.headers)
    if match.exact is not None:
        return (1, 0, *further)
    if match.prefix is not None and match.prefix.endswith("/"):
        return (0, len(match.prefix.rstrip("/")), *further)
    return None


_PIECE: Final = re.compile(r"<[^<>]*>|\{[^{}]*\}|\[!?[^\]]+\]|.", re.DOTALL)


def meet(one: str, other: str) -> bool:
    """Whether some text matches both globs. Open parts (`<id>`) and `[…]` stand for anything, so True may be wrong."""
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
