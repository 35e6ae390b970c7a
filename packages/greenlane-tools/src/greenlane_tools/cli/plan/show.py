"""`greenlane plan show SOURCE`: what a profile knows, how close the cliff is, and what is missing."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane_tools.cli.plan.arguments import SOURCE, declare_skip

__all__ = ["COMMAND"]


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help=SOURCE)
    declare_skip(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object: the whole, routes, what is missing")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_tools.plan import showing
    from greenlane_tools.plan.sources import opened

    profile = opened(arguments.source, skip_s=arguments.skip)
    if arguments.json:
        output.document("plan-show", showing.rows_of(profile))
        return 0
    first, *others = showing.sentences(profile)
    output.line(output.styled(_plain(first), "bold"))
    for sentence in others:
        output.line(_plain(sentence))
    output.line()
    output.table(showing.table_of(profile), showing.COLUMNS)
    lacks = [*showing.missing(profile), *profile.notes]
    if lacks:
        output.line()
        output.line("what is missing")
    for sentence in lacks:
        output.line(f"- {_plain(sentence)}")
    return 0


def _plain(text: str) -> str:
    """Names come from files: what could steer a terminal is written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


COMMAND: Final = Command("show", "what a profile knows, how close the cliff is, what is missing", _declare, _run)
