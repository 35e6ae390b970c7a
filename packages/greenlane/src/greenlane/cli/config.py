"""`greenlane config`: the effective settings, and where each came from."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.cli.settings_flags import declare_settings, effective_settings
from greenlane.settings.listing import effective, example, installed

__all__ = ["COMMAND"]

_EMPTY: Final = "''"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--example", action="store_true", help="print a commented greenlane.toml with every default")
    declare_settings(parser, installed(), shown=())


def _run(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.example:
        output.line(example())
        return 0
    rows = effective(effective_settings(arguments, installed()))
    if arguments.json:
        output.document("config", rows)
    else:
        shown = [{**row, "value": _EMPTY if row["value"] in ("", []) else row["value"]} for row in rows]
        output.table(shown, ("setting", "value", "unit", "origin"))
    return 0


COMMAND: Final = Command(
    "config", "print the effective settings and where each came from", _declare, _run,
    examples=("greenlane config", "greenlane config --example > greenlane.toml"),
)  # fmt: skip
