"""`greenlane demo`: the demonstrations that ship in the wheel."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output

__all__ = ["COMMAND"]

DEMOS: Final = ("pricing",)


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=DEMOS, help="pricing: a Flask service under load, by several servers in turn")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="its arguments; see `greenlane demo pricing --help`")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    with needed("demo", "start the demo"):
        from greenlane.lab.pricing import command
    return command.main(arguments.rest, output.out, output.err)


COMMAND: Final = Command("demo", "run a demonstration: greenlane demo pricing", _declare, _run)
