"""`greenlane plan diff OLD NEW`: what a release has changed in what requests cost, beyond noise."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane_tools.cli.plan.arguments import SOURCE, declare_skip


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old", metavar="OLD", help=f"before: {SOURCE}")
    parser.add_argument("new", metavar="NEW", help="after: likewise")
    declare_skip(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object: a row for each number of each route")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_tools.plan import differences
    from greenlane_tools.plan.sources import opened

    old = opened(arguments.old, skip_s=arguments.skip)
    found = differences.compared(old, opened(arguments.new, skip_s=arguments.skip))
    if arguments.json:
        output.document("plan-diff", differences.rows_of(found))
        return 0
    for sentence in differences.answers(found):
        output.line(sentence)
    output.line()
    output.table(differences.table_of(found), differences.COLUMNS)
    return 0


COMMAND: Final = Command(
    "diff", "show what a release changed in what requests cost, with intervals", _declare, _run,
    examples=("greenlane plan diff old.glr new.glr", "greenlane plan diff old.json new.glr --json"),
)  # fmt: skip
