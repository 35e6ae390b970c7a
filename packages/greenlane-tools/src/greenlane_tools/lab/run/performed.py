"""A run that was made: its requests and what was measured around them."""

from __future__ import annotations

from dataclasses import dataclass, field

from greenlane_tools.lab.run.cell import Turn
from greenlane_tools.lab.run.faults import Done
from greenlane_tools.lab.samples import Samples

__all__ = ["Closed", "Run"]


@dataclass(frozen=True)
class Closed:
    """What a closed-loop tool said of a contender; None = it does not say that."""

    tool: str
    seconds: float
    requests: int
    errors: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(frozen=True)
class Run:
    """What one contender did in one repetition at one level."""

    turn: Turn
    # Duration of the load, without the drain.
    seconds: float
    samples: Samples
    # User + system time of the contender's processes, load and drain.
    cpu_ms: float
    # Time in which it was spent: the load and the drain.
    wall_s: float
    # Of the same processes, at the end of the run.
    pss_mb: float
    # Cores that processes which are no part of the comparison took meanwhile.
    others_cores: float = 0.0
    # By how much the generator itself came late, p99 over requests whose connection was there.
    lag_p99_ms: float = 0.0
    # What the generator says of a schedule that it did not keep; "" = it kept it.
    late: str = ""
    # When its load began, by the monotonic clock; 0 = not known.
    began_ns: int = 0
    # By how much the wall clock was set meanwhile.
    clock_step_ms: float = 0.0
    faults: tuple[Done, ...] = ()
    # Services whose process had exited at the end, and their last words.
    dead: tuple[str, ...] = ()
    said: str = ""
    contrast: tuple[Closed, ...] = field(default=())
