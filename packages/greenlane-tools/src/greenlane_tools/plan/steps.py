"""What one request does: stretches of CPU and of I/O, in order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

__all__ = ["KINDS", "NOBODY", "Kind", "Sequence", "Step", "joined"]

#: cpu: it computes and needs the GIL or the loop. free: it computes without the GIL. io: it is blocked until what it
#: waits for is there. held: I/O that blocks its whole loop (a driver that gevent does not patch); on threads like io.
Kind = Literal["cpu", "io", "free", "held"]
KINDS: Final[tuple[Kind, ...]] = ("cpu", "io", "free", "held")
#: An I/O step that is no upstream's: a sleep, a file, a yield.
NOBODY: Final = -1


@dataclass(frozen=True, slots=True)
class Step:
    """A stretch. An I/O step of 0 ms is a yield: others on the loop go first."""

    kind: Kind
    #: >= 0.
    ms: float
    #: Of I/O: index into the route's `upstreams`, or `NOBODY`.
    upstream: int = NOBODY


@dataclass(frozen=True, slots=True)
class Sequence:
    """One sampled request, and for how many it stands."""

    #: Requests, > 0; not a whole number where the sample is smaller than what it stands for.
    weight: float
    #: In the order of time; never empty.
    steps: tuple[Step, ...]
    #: How much more eagerly than others it was sampled, > 0; see `greenlane_tools.plan.sampling`.
    emphasis: float = 1.0
    #: Its rank in the sample, > 0: those with the highest are kept.
    priority: float = 1.0

    def ms(self, *kinds: Kind) -> float:
        """Its time in steps of these kinds."""
        return sum(step.ms for step in self.steps if step.kind in kinds)

    def phases(self) -> int:
        """How often it wants the CPU: stretches of it between I/O."""
        return sum(step.kind == "cpu" for step in self.steps)

    def longest_ms(self) -> float:
        """Its longest stretch on the CPU that needs the GIL."""
        return max((step.ms for step in self.steps if step.kind == "cpu"), default=0.0)


def joined(steps: Iterable[Step]) -> tuple[Step, ...]:
    """The same with neighbours of one kind made one; I/O stays apart where its upstreams differ or one is a yield."""
    found: list[Step] = []
    for step in steps:
        last = found[-1] if found else None
        if last is not None and _alike(last, step):
            found[-1] = Step(step.kind, last.ms + step.ms, step.upstream)
        elif step.ms > 0 or step.kind == "io":
            found.append(step)
    return tuple(found)


def _alike(one: Step, other: Step) -> bool:
    same = (one.kind, one.upstream) == (other.kind, other.upstream)
    return same and (one.kind != "io" or (one.ms > 0 and other.ms > 0))
