"""Hog or overcommit: one long burst, or many short ones.

A detector of long slices sees only the first, and most tools are one. The rule here is over the wait itself: of all
that jobs waited because somebody else ran, how much came from slices that alone were long enough to be felt?
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.reader.rows import Blame

__all__ = ["Contention", "contention_of"]

#: A slice of at least this is long whatever it makes wait: what a person or a deadline notices. Arbitrary.
LONG_NS: Final = 20_000_000
#: A shorter one is long when it is at least this share of the victim's mean wait, and not below `SHORTEST_NS`.
HALF: Final = 0.5
#: Below this a slice is no burst worth a name: the limit above which Greenlane's permits count a phase as heavy.
SHORTEST_NS: Final = 4_000_000
#: From these shares of long slices on it is called one or the other; between them both. Arbitrary.
HOG_FRAC: Final = 2 / 3
OVERCOMMIT_FRAC: Final = 1 / 3
#: Below this share of all latencies, waiting for others is not worth a name.
WORTH_FRAC: Final = 0.05

#: Waits that somebody else's running causes.
_CONTENDED: Final = ("loop", "gil", "permit", "accept")


@dataclass(frozen=True)
class Contention:
    """The finding; shares 0 to 1."""

    #: "hog", "overcommit", "both", or "none".
    verdict: str
    #: Of the contended wait, what came from long slices.
    long_frac: float
    wait_ns: int
    #: (culprit, ns by its long slices, longest slice), most first.
    hogs: Sequence[tuple[str, int, int]]
    #: (culprit, ns by its short slices), most first.
    crowd: Sequence[tuple[str, int]]
    #: Slices that jobs waited for, and their length, by the wait for them: known by powers of two.
    slices: int
    typical_slice_ns: float
    #: Jobs in progress at the same time in one process, mean of the fullest; its busy share (None: not sampled).
    in_progress: float
    busy_frac: float | None


def contention_of(blame: Iterable[Blame], latency_ns: int, in_progress: float, busy_frac: float | None) -> Contention:
    """Tells the two apart.

    Args:
        latency_ns: of all jobs together: what the wait is measured against.
        in_progress, busy_frac: N and load of the fullest process, for the finding's words.
    """
    rows = [row for row in blame if row.kind in _CONTENDED and row.ns > 0 and row.culprit not in ("os", "unknown")]
    typical = _typical_wait(rows)
    long_ns: dict[str, int] = {}
    short_ns: dict[str, int] = {}
    longest: dict[str, int] = {}
    weighed_ns2 = 0.0
    for row in rows:
        by_long = sum(ns for place, ns in enumerate(row.by_length_ns) if _long(place, typical[row.victim, row.kind]))
        by_long = min(by_long, row.ns)
        long_ns[row.culprit] = long_ns.get(row.culprit, 0) + by_long
        short_ns[row.culprit] = short_ns.get(row.culprit, 0) + row.ns - by_long
        longest[row.culprit] = max(longest.get(row.culprit, 0), row.longest_ns)
        weighed_ns2 += sum(ns * min(1.5 * (1000 << place), row.longest_ns) for place, ns in enumerate(row.by_length_ns))
    wait_ns = sum(row.ns for row in rows)
    long_frac = sum(long_ns.values()) / wait_ns if wait_ns else 0.0
    ranked = sorted(long_ns, key=lambda culprit: -long_ns[culprit])
    crowded = sorted(short_ns, key=lambda culprit: -short_ns[culprit])
    return Contention(
        verdict=_verdict(long_frac, wait_ns, latency_ns),
        long_frac=long_frac,
        wait_ns=wait_ns,
        hogs=[(name, long_ns[name], longest[name]) for name in ranked if long_ns[name] > 0],
        crowd=[(name, short_ns[name]) for name in crowded if short_ns[name] > 0],
        slices=sum(row.slices for row in rows),
        typical_slice_ns=weighed_ns2 / wait_ns if wait_ns else 0.0,
        in_progress=in_progress,
        busy_frac=busy_frac,
    )


def _typical_wait(rows: Iterable[Blame]) -> dict[tuple[str, str], float]:
    """Mean wait by victim and kind: its sum by the number of waits, which the culprit with most parts is nearest to."""
    total: dict[tuple[str, str], int] = {}
    waits: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row.victim, row.kind)
        total[key] = total.get(key, 0) + row.ns
        waits[key] = max(waits.get(key, 0), row.waits)
    return {key: total[key] / max(1, waits[key]) for key in total}


def _long(place: int, typical_ns: float) -> bool:
    # By the middle of the bin (its edges are powers of two): 16 to 33 ms counts as over 20 ms, 8 to 16 ms does not.
    length_ns = 1.5 * (1000 << place)
    return length_ns >= LONG_NS or (length_ns >= SHORTEST_NS and length_ns >= HALF * typical_ns)


def _verdict(long_frac: float, wait_ns: int, latency_ns: int) -> str:
    if not wait_ns or wait_ns < WORTH_FRAC * latency_ns:
        return "none"
    if long_frac >= HOG_FRAC:
        return "hog"
    return "overcommit" if long_frac <= OVERCOMMIT_FRAC else "both"
