"""`greenlane demo`: the demonstrations that ship in the wheel."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.errors import GreenlaneError, SettingsError

__all__ = ["COMMAND"]

DEMOS: Final = ("pricing",)


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", choices=DEMOS, help="pricing: a Flask service under load, by several servers in turn")
    parser.add_argument("rest", nargs=argparse.REMAINDER, help="its arguments; see `greenlane demo pricing --help`")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    try:
        from greenlane.demo import command
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "greenlane":
            raise
        raise _missing(error.name) from None
    return command.main(arguments.rest, output.out, output.err)


def _missing(name: str) -> GreenlaneError:
    hint = "pip install 'greenlane[demo]'"
    return SettingsError("module", name, "the packages of the extra demo", hint, attempted="start the demo")


COMMAND: Final = Command("demo", "run a demonstration: greenlane demo pricing", _declare, _run)
