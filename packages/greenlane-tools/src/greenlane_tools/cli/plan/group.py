"""`greenlane plan`: what to set because of what was recorded."""

from __future__ import annotations

from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.subcommands import group
from greenlane_tools.cli.plan import advise, diff, profile

COMMAND: Final[Command] = group(
    "plan",
    "say what to set because of a recording: limits, processes, lanes",
    (advise.COMMAND, diff.COMMAND, profile.COMMAND),
    examples=("greenlane plan shop.glr --goal 'bikes p99 <= 500ms'", "greenlane plan diff old.glr new.glr"),
    implied="advise",  # `greenlane plan SOURCE`
)
