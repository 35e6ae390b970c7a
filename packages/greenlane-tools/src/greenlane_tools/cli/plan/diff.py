"""`greenlane plan diff OLD NEW`: what a release has changed in what requests cost, beyond noise."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane_tools.cli.plan.arguments import SOURCE, declare_looking

__all__ = ["COMMAND"]


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", help=f"before: {SOURCE}")
    parser.add_argument("new", metavar="NEW", help="after: likewise")
    declare_looking(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object: a row for each number of each route")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_tools.plan import difference_words
    from greenlane_tools.plan.differences import compared
    from greenlane_tools.plan.sources import opened

    old = opened(arguments.old, seconds=arguments.seconds, skip_s=arguments.skip)
    found = compared(old, opened(arguments.new, seconds=arguments.seconds, skip_s=arguments.skip))
    if arguments.json:
        output.document("plan-diff", difference_words.rows_of(found))
        return 0
    for sentence in difference_words.answers(found):
        output.line(sentence)
    output.line()
    output.table(difference_words.table_of(found), difference_words.COLUMNS)
    return 0


COMMAND: Final = Command("diff", "what a release changed in what requests cost, with intervals", _declare, _run)
