"""`greenlane version`: which Greenlane this is, and on what it runs."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane._native import __version__
from greenlane.cli.command import Command
from greenlane.cli.output import Output, environment

__all__ = ["COMMAND"]


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.json:
        output.document("version", [environment()])
    else:
        output.line(f"greenlane {__version__}")
    return 0


COMMAND: Final = Command("version", "show the version", _declare, _run)
