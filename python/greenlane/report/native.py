"""Slices that the interpreter could not cut: C calls that hold the GIL.

A thread that wants the GIL has it after one switch interval, whatever Python code runs. A wait for it that is much
longer in one slice means that no bytecode ran: a C call held it. A shorter interval or permits cannot cut such a call;
another process can.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane.record.rows import Blame, Process

__all__ = ["Uncut", "interval_ns", "uncut_of"]

#: CPython's own.
_DEFAULT_INTERVAL_NS: Final = 5_000_000
#: A wait in one slice of over so many intervals is a call's doing; up to it, bad luck of the scheduler.
INTERVALS: Final = 2


@dataclass(frozen=True)
class Uncut:
    """Waits for the GIL in slices that were not cut."""

    interval_ns: int
    gil_wait_ns: int
    #: A lower bound: slices are known by powers of two.
    uncut_ns: int
    #: (culprit, ns, longest slice), most first.
    culprits: Sequence[tuple[str, int, int]]

    @property
    def frac(self) -> float:
        """Of the wait for the GIL; 0 to 1."""
        return self.uncut_ns / self.gil_wait_ns if self.gil_wait_ns else 0.0


def interval_ns(processes: Iterable[Process]) -> int:
    """The largest switch interval that a process says it had; CPython's 5 ms when none does."""
    found = [process.about.get("switch_interval_s") for process in processes]
    known = [int(value * 1e9) for value in found if isinstance(value, int | float) and value > 0]
    return max(known, default=_DEFAULT_INTERVAL_NS)


def uncut_of(blame: Iterable[Blame], interval: int) -> Uncut:
    """What jobs waited for the GIL in slices that were longer than it should let them.

    Args:
        interval: the switch interval, ns.
    """
    rows = [row for row in blame if row.kind == "gil"]
    by_culprit: dict[str, int] = {}
    longest: dict[str, int] = {}
    for row in rows:
        # What one slice made one victim wait, at most: by the slices that are long enough, and only where the mean
        # over them says that the wait, not only the slice, was long.
        long_ns = sum(ns for place, ns in enumerate(row.by_length_ns) if (1000 << place) >= INTERVALS * interval)
        if row.culprit == "native":
            long_ns = row.ns
        if long_ns:
            by_culprit[row.culprit] = by_culprit.get(row.culprit, 0) + min(long_ns, row.ns)
            longest[row.culprit] = max(longest.get(row.culprit, 0), row.longest_ns)
    ranked = sorted(by_culprit, key=lambda culprit: -by_culprit[culprit])
    return Uncut(
        interval_ns=interval,
        gil_wait_ns=sum(row.ns for row in rows),
        uncut_ns=sum(by_culprit.values()),
        culprits=[(name, by_culprit[name], longest[name]) for name in ranked],
    )
