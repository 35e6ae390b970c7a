"""Closed-loop tools beside the open loop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from greenlane.settings.setting import declare
from greenlane_tools.lab.scenario.patterns import MAYBE_NAME

__all__ = ["H2LOAD", "TOOLS", "Contrast"]

H2LOAD: Final = "h2load"
#: Programs that are skipped by name where they are missing.
TOOLS: Final = (H2LOAD, "ab", "wrk")


@dataclass(frozen=True)
class Contrast:
    """`[contrast]`: after each run the same contender under clients that wait for their answer before they ask again.

    Its figures are rows of the stage that the tool's name is; the faults come at the same times.
    """

    tools: tuple[str, ...] = declare(
        (),
        f"Some of {', '.join(TOOLS)}. One that is not installed is left out by name.",
        reason="none unless asked for",
        pattern=("|".join(TOOLS), f"one of {', '.join(TOOLS)}"),
    )
    connections: int = declare(
        2,
        "Clients, each with a connection of its own.",
        reason="arbitrary: few, as a quick check has",
        low=1,
        high=1_000,
    )
    endpoint: str = declare("", "The class that is asked; nothing = the first.", reason="one path", pattern=MAYBE_NAME)
    repetitions: int = declare(
        1, "In so many of the repetitions.", reason="one shows it, and costs as long as a run", low=1, high=100
    )
