"""A command that is a group of others: `greenlane lab run`, `greenlane plan diff`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.cli.parser import described

__all__ = ["group"]


def group(
    name: str, summary: str, commands: Sequence[Command], *, implied: str = "", examples: tuple[str, ...] = ()
) -> Command:
    """A command whose first word is one of these commands; without one it shows its help, exit code 2.

    Args:
        name: its own.
        summary: its own, one line.
        commands: in the order of the help. Their parsers are in `arguments.NAME_parser`.
        implied: the one that is meant where the first word is none; "" = none is.
        examples: command lines for its help.
    """
    chosen, its_parser = f"{name}_command", f"{name}_parser"

    def declare(parser: argparse.ArgumentParser) -> None:
        # Parsers of our subcommands are of the caller's own class, so that usage errors read alike.
        found = parser.add_subparsers(title="commands", metavar="COMMAND", parser_class=type(parser))
        parser.set_defaults(**{chosen: None})
        for one in commands:
            sub = found.add_parser(one.name, **described(one.summary, one.examples))
            one.declare(sub)
            sub.set_defaults(**{chosen: one, its_parser: sub})

    def run(arguments: argparse.Namespace, output: Output) -> int:
        command: Command | None = getattr(arguments, chosen)
        if command is None:
            arguments.parser.print_help(output.err)
            return 2
        return command.run(arguments, output)

    words = tuple(one.name for one in commands) if implied else ()
    return Command(name, summary, declare, run, subcommands=words, implied=implied, examples=examples)
