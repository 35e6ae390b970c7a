"""`greenlane lab`: how a service behaves as its work and its concurrency grow, measured."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.lab import accept, compare, doctor, part3, placement, run
from greenlane.cli.output import Output

__all__ = ["COMMAND", "SUBCOMMANDS"]

SUBCOMMANDS: Final[tuple[Command, ...]] = (
    part3.COMMAND,
    run.COMMAND,
    compare.COMMAND,
    placement.COMMAND,
    accept.COMMAND,
    doctor.COMMAND,
)


def _declare(parser: argparse.ArgumentParser) -> None:
    # Parsers of our subcommands are of the caller's own class, so that usage errors read alike.
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=type(parser))
    parser.set_defaults(lab_command=None)
    for command in SUBCOMMANDS:
        sub = commands.add_parser(command.name, help=command.summary, description=command.summary, allow_abbrev=False)
        command.declare(sub)
        sub.set_defaults(lab_command=command, lab_parser=sub)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    chosen: Command | None = arguments.lab_command
    if chosen is None:
        arguments.parser.print_help(output.err)
        return 2
    return chosen.run(arguments, output)


COMMAND: Final = Command("lab", "benchmarks and scenarios: how a service behaves as work grows", _declare, _run)
