"""Runs to make: contender × level × repetition, in the order that lets a drift of the machine meet all alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from greenlane_tools.lab.rotation import in_turns
from greenlane_tools.lab.scenario.scenario import Level, Scenario

__all__ = ["Turn", "turns"]


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
    """Every run in order: contenders change fastest; who goes first changes with the repetition."""
    for repetition in range(scenario.repetitions):
        for level in scenario.levels():
            for contender in in_turns(contenders, repetition):
                yield Turn(contender, level, repetition)
