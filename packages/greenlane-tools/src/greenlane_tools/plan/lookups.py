"""Name lookups on a loop: what of them is waiting.

gevent and asyncio look names up on threads of their own. Those need the GIL, which the loop has, and their result waits
for the loop: under load a lookup of a millisecond lasts for seconds, all of which a recording shows as I/O. The fastest
lookups of a route are those that hardly waited.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from greenlane_tools.reader.rows import Segment

__all__ = ["Life", "shortened"]

Life = Sequence[Segment]

_KIND: Final = "dns"
#: A lookup counts as at most so many times what one in ten of them does not exceed. Arbitrary.
_TIMES: Final = 4
_FASTEST_FRAC: Final = 0.1


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
