"""`greenlane config`: the effective settings, and where each came from."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.cli.settings_flags import declare_settings, effective_settings
from greenlane.settings.shown import effective, installed

__all__ = ["COMMAND"]

_EMPTY: Final = "''"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object")
    declare_settings(parser, installed())


def _run(arguments: argparse.Namespace, output: Output) -> int:
    rows = effective(effective_settings(arguments, installed()))
    if arguments.json:
        output.document("config", rows)
    else:
        shown = [{**row, "value": _EMPTY if row["value"] in ("", []) else row["value"]} for row in rows]
        output.table(shown, ("setting", "value", "unit", "origin"))
    return 0


COMMAND: Final = Command("config", "print the effective settings and where each came from", _declare, _run)
