"""`greenlane plan`: what to set because of what was recorded."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.cli.plan import advise, bounds, decide, diff, profile, selftest, show

__all__ = ["COMMAND", "IMPLIED", "SUBCOMMANDS"]

SUBCOMMANDS: Final[tuple[Command, ...]] = (
    advise.COMMAND,
    show.COMMAND,
    diff.COMMAND,
    profile.COMMAND,
    selftest.COMMAND,
    bounds.COMMAND,
    decide.COMMAND,
)
#: What `greenlane plan SOURCE` does.
IMPLIED: Final = "advise"


def _declare(parser: argparse.ArgumentParser) -> None:
    # Parsers of our subcommands are of the caller's own class, so that usage errors read alike.
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=type(parser))
    parser.set_defaults(plan_command=None)
    for command in SUBCOMMANDS:
        sub = commands.add_parser(command.name, help=command.summary, description=command.summary, allow_abbrev=False)
        command.declare(sub)
        sub.set_defaults(plan_command=command, plan_parser=sub)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    chosen: Command | None = arguments.plan_command
    if chosen is None:
        arguments.parser.print_help(output.err)
        return 2
    return chosen.run(arguments, output)


COMMAND: Final = Command(
    "plan",
    "what a recording says of limits, processes and the cliff",
    _declare,
    _run,
    subcommands=tuple(command.name for command in SUBCOMMANDS),
    implied=IMPLIED,
)
