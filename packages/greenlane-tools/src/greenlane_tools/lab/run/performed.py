"""A run that was made: its requests and what was measured around them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from greenlane_tools.lab.run.faults import Done
from greenlane_tools.lab.samples import Samples
from greenlane_tools.lab.scenario.scenario import Level, Scenario

__all__ = ["Closed", "Run", "Turn", "in_turns", "turns"]


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
    # What a loop of fixed work took meanwhile, mean: how fast the cores were; 0 = not known.
    loop_ns: float = 0.0
    # By how much the wall clock was set meanwhile.
    clock_step_ms: float = 0.0
    faults: tuple[Done, ...] = ()
    # Services whose process had exited at the end, and their last words.
    dead: tuple[str, ...] = ()
    said: str = ""
    contrast: tuple[Closed, ...] = field(default=())


# --- Runs to make: contender × level × repetition, in the order that lets a drift of the machine meet all alike.


@dataclass(frozen=True)
class Turn:
    """One run to make, or made."""

    contender: str
    level: Level
    repetition: int

    @property
    def label(self) -> str:
        """Its file's name, and its name in messages."""
        return f"{self.contender}-{self.level.label}-{self.repetition}"

    def key(self) -> dict[str, str | int | float]:
        """Columns in front of its samples. Without a utilisation that column is 0."""
        return {
            "contender": self.contender,
            "cell": f"{self.contender}-{self.level.label}",
            "utilisation_frac": self.level.utilisation_frac or 0.0,
            "rate_factor": self.level.rate_factor,
            "repetition": self.repetition,
        }


def turns(scenario: Scenario, contenders: Sequence[str]) -> Iterator[Turn]:
    """Every run in order: contenders change fastest; their order changes with the repetition."""
    for repetition in range(scenario.repetitions):
        for level in scenario.levels():
            for contender in in_turns(contenders, repetition):
                yield Turn(contender, level, repetition)


# --- Who goes first: contenders take turns over repetitions, so that none has the machine's better hour.

T = TypeVar("T")


def in_turns(contenders: Sequence[T], repetition: int) -> list[T]:
    """Their order in one repetition: everybody is first once in as many as there are."""
    at = repetition % len(contenders)
    return [*contenders[at:], *contenders[:at]]
