"""`greenlane mode`: switches running processes over their control sockets."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.cli.running import answers, declare_running
from greenlane.control.protocol import MODES
from greenlane.errors import ControlError
from greenlane.settings.refusal import nearest

__all__ = ["COMMAND"]


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "mode",
        choices=MODES,
        help="on = permits in force, observe = only count, off = plain threads, and nothing is counted",
    )
    parser.add_argument("--route", help='this route only, as `greenlane top` shows it ("GET /bikes/<id>")')
    parser.add_argument("--json", action="store_true", help="one JSON object")
    declare_running(parser)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.route is not None:
        _check_route(arguments, output)
    request = {"do": "mode", "mode": arguments.mode, "route": arguments.route}
    found, refused = answers(arguments, request, output)
    rows = [{"pid": answer["pid"], "mode": answer["mode"], "route": arguments.route} for answer in found]
    if arguments.json:
        output.document("mode", rows)
    else:
        output.table(rows, ("pid", "mode") if arguments.route is None else ("pid", "mode", "route"))
    return 1 if refused else 0


def _check_route(arguments: argparse.Namespace, output: Output) -> None:
    """Refuses a route that no process knows: switched, it would change nothing and look as if it had.

    One process that knows it is enough: the others meet it later and get the mode now.
    """
    found, _ = answers(arguments, {"do": "show"}, output)
    known = {str(row["route"]) for answer in found for row in answer["learned"]}
    if arguments.route not in known:
        hint = nearest(arguments.route, known) or "`greenlane top --once` lists them"
        rule = "a route that a process has met"
        raise ControlError("switch the mode", name="route", value=arguments.route, rule=rule, hint=hint)


COMMAND: Final = Command(
    "mode", "switch running processes: on, observe or off", _declare, _run,
    examples=("greenlane mode observe", "greenlane mode off --route 'GET /report'"),
)  # fmt: skip
