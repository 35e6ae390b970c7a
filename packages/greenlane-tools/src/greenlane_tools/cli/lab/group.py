"""`greenlane lab`: how a service behaves as its work and its concurrency grow, measured."""

from __future__ import annotations

from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.subcommands import group
from greenlane_tools.cli.lab import compare, run
from greenlane_tools.lab.accept import options as accept
from greenlane_tools.lab.part3 import options as part3
from greenlane_tools.lab.placement import options as placement

COMMAND: Final[Command] = group(
    "lab",
    "run benchmarks and scenarios: how a service behaves under load",
    (part3.COMMAND, run.COMMAND, compare.COMMAND, placement.COMMAND, accept.COMMAND),
    examples=("greenlane lab run --list", "greenlane lab part3 --preset lyft-5-55"),
)
