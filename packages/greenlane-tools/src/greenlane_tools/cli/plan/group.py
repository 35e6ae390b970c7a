"""`greenlane plan`: what to set because of what was recorded."""

from __future__ import annotations

from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.subcommands import group
from greenlane_tools.cli.plan import advise, decide, diff, profile, selftest, show

__all__ = ["COMMAND"]

COMMAND: Final[Command] = group(
    "plan",
    "what a recording says of limits, processes and the cliff",
    (
        advise.COMMAND,
        show.COMMAND,
        diff.COMMAND,
        profile.COMMAND,
        selftest.COMMAND,
        decide.COMMAND,
    ),
    implied="advise",  # `greenlane plan SOURCE`
)
