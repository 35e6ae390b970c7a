"""One recorded request as it would have been alone: its CPU and I/O in order, without what it waited for others.

Where several of its units do something at a moment it computes if one of them does, else it is in I/O if one of them
is: a wait beside I/O would not have made it longer. What is neither, is left out: waiting for the GIL, the loop, a
permit, a core is what a plan is to predict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from greenlane_tools.plan.steps import NOBODY, Kind, Step, joined
from greenlane_tools.reader.rows import Segment

__all__ = ["Named", "steps_of"]

#: What a moment counts as; the first that is there.
_RANK: Final[Mapping[str, int]] = {"cpu": 0, "io": 1, "wait": 2}
#: After these others had the CPU because the request gave way; after the other kinds it was taken away.
_GIVES_WAY: Final = ("loop", "lock", "pool")
#: Most steps of a sequence; beyond it the shortest I/O is put to its neighbour.
_MOST_STEPS: Final = 200

#: Which step an I/O segment is: its kind, and its upstream by index.
Named = Callable[[Segment], tuple[Kind, int]]


def steps_of(segments: Iterable[Segment], named: Named, *, free_frac: float = 0.0) -> tuple[Step, ...]:
    """The steps; empty if nothing of it was seen.

    Args:
        segments: its life, as `Recording.segments` gives it.
        free_frac: the share of its CPU that runs without the GIL; taken from the end of each stretch.
    """
    steps: list[Step] = []
    for segment, ns in _laid(sorted(segments, key=lambda each: each.from_ns)):
        if segment.state == "cpu":
            steps.append(Step("cpu", ns / 1e6))
        elif segment.state == "io":
            kind, upstream = named(segment)
            steps.append(Step(kind, ns / 1e6, upstream))
        elif steps and segment.kind in _GIVES_WAY and steps[-1].kind == "cpu":
            steps.append(Step("io", 0.0, NOBODY))
    found = list(joined(steps))
    while len(found) > _MOST_STEPS and len(shorter := _shorter(found)) < len(found):
        found = shorter
    if free_frac > 0:
        found = [part for step in found for part in _split(step, free_frac)]
    return joined(Step(step.kind, round(step.ms, 5), step.upstream) for step in found)


def _laid(segments: list[Segment]) -> Iterator[tuple[Segment, int]]:
    """What counts at each moment, as (segment, ns)."""
    if all(one.to_ns <= other.from_ns for one, other in pairwise(segments)):
        yield from ((each, each.to_ns - each.from_ns) for each in segments)
        return
    edges = sorted({at for each in segments for at in (each.from_ns, each.to_ns)})
    active: list[Segment] = []
    next_ = 0
    for from_ns, to_ns in pairwise(edges):
        active = [each for each in active if each.to_ns > from_ns]
        while next_ < len(segments) and segments[next_].from_ns <= from_ns:
            active.append(segments[next_])
            next_ += 1
        if active:
            yield min(active, key=lambda each: _RANK.get(each.state, 2)), to_ns - from_ns


def _shorter(steps: list[Step]) -> list[Step]:
    """The same without the shorter half of the I/O between other steps; its time goes to the I/O behind it."""
    inner = [number for number in range(1, len(steps) - 1) if steps[number].kind in ("io", "held")]
    inner.sort(key=lambda number: steps[number].ms)
    drop = set(inner[: max(1, len(inner) // 2)])
    kept: list[Step] = []
    carried = 0.0
    for number, step in enumerate(steps):
        if number in drop:
            carried += step.ms
        elif step.kind in ("io", "held"):
            kept.append(Step(step.kind, step.ms + carried, step.upstream))
            carried = 0.0
        else:
            kept.append(step)
    return list(joined([*kept, Step("io", carried)] if carried else kept))


def _split(step: Step, free_frac: float) -> list[Step]:
    if step.kind != "cpu":
        return [step]
    return [Step("cpu", step.ms * (1 - free_frac)), Step("free", step.ms * free_frac)]
