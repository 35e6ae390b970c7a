"""Where jobs spent their own time: CPU by line of code, I/O by kind, waiting by who was the cause; in one flame graph.

CPU is known of every job. Its lines are known of jobs that computed for over 10 ms at a time: they were looked at five
times a second, and the CPU of each stands for its looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from greenlane_tools.reader.rows import Blame, Own
from greenlane_tools.report.culprits import StackFrame, frames, own_frame
from greenlane_tools.report.split import RouteSplit, named

__all__ = ["OwnLine", "own_lines", "spent"]

#: CPU of jobs that were not looked at.
_UNSEEN: Final = "not looked at"


@dataclass(frozen=True)
class OwnLine:
    """One line of the application, in which jobs of a route computed."""

    route: str
    frame: StackFrame
    cpu_ns: int
    #: Of the CPU of these jobs whose lines are known.
    frac: float
    looks: int


def own_lines(own: Iterable[Own]) -> list[OwnLine]:
    """By route and line, most CPU first."""
    found: dict[tuple[str, StackFrame], tuple[int, int]] = {}
    whole: dict[str, int] = {}
    for row in own:
        frame = own_frame(row.stack)
        if frame is not None:
            cpu_ns, looks = found.get((row.route, frame), (0, 0))
            found[row.route, frame] = cpu_ns + row.cpu_ns, looks + row.looks
            whole[row.route] = whole.get(row.route, 0) + row.cpu_ns
    lines = [
        OwnLine(route, frame, cpu_ns, cpu_ns / whole[route], looks) for (route, frame), (cpu_ns, looks) in found.items()
    ]
    return sorted(lines, key=lambda line: (-line.cpu_ns, line.route, line.frame))


def spent(routes: Sequence[RouteSplit], own: Iterable[Own], blame: Iterable[Blame]) -> Iterator[tuple[str, float]]:
    """(route, what it did, and more of that, from the outermost; ns), of all jobs together."""
    known: dict[str, int] = {}
    for row in own:
        shown = (f"{frame.function} ({frame.file}:{frame.line})" if frame.file else frame.function
                 for frame in frames(row.stack))  # fmt: skip
        yield ";".join([_plain(row.route), "CPU", *map(_plain, shown)]), row.cpu_ns
        known[row.route] = known.get(row.route, 0) + row.cpu_ns
    for split in routes:
        if split.cpu_ns > known.get(split.route, 0):
            yield f"{_plain(split.route)};CPU;{_UNSEEN}", split.cpu_ns - known.get(split.route, 0)
        for kind, ns in split.io_ns.items():
            yield f"{_plain(split.route)};I/O;{kind}", ns
    for each in blame:
        yield ";".join([_plain(each.victim), named(each.kind), _plain(each.culprit)]), each.ns


def _plain(text: str) -> str:
    return text.replace(";", ":")
