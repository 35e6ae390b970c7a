"""`greenlane plan`: what to set because of what was recorded."""

from __future__ import annotations

from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.subcommands import group
from greenlane_tools.cli.plan import advise, diff, profile

__all__ = ["COMMAND"]

COMMAND: Final[Command] = group(
    "plan",
    "what a recording says of limits, processes and the cliff",
    (
        advise.COMMAND,
        diff.COMMAND,
        profile.COMMAND,
    ),
    implied="advise",  # `greenlane plan SOURCE`
)
