"""`greenlane divert`: a share of what comes in for another version, set and looked at while it runs."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane.cli import divert_route
from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.cli.settings_flags import declare_settings

__all__ = ["COMMAND"]


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("flow", choices=("route",), help="requests under `greenlane serve`")
    parser.add_argument("route", nargs="?", default="", metavar="ROUTE", help="as a lane's match: '/bikes/*'")
    parser.add_argument("--to", default="", metavar="VERSION", help="one of [versions]; default: as named last")
    parser.add_argument("--share", metavar="SHARE", help="how much of it: 30%%, 0.3, 0")
    parser.add_argument("--status", action="store_true", help="only show what is set, and who serves")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    declare_settings(parser, ("bind",))


def _run(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.share is None and not arguments.status:
        arguments.parser.error("one of --share and --status is needed")
    if arguments.share is not None and arguments.status:
        arguments.parser.error("--status changes nothing: leave out --share, or --status")
    if arguments.share is not None and not arguments.route:
        arguments.parser.error("--share needs a ROUTE")
    if arguments.to and arguments.share is None:
        arguments.parser.error("--to needs --share")
    return divert_route.run(arguments, output)


COMMAND: Final = Command("divert", "send a share of a route to another version, or show it", _declare, _run)
