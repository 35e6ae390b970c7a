"""`greenlane breaker`: opens or closes a key's breaker in the running workers, over their control sockets."""

from __future__ import annotations

import argparse
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.cli.running import answers, declare_running
from greenlane.settings.refusal import nearest

__all__ = ["COMMAND"]


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("key", metavar="KEY", help="the key, as `greenlane top` shows it")
    parser.add_argument("state", choices=("open", "closed"), help="open = its orders wait, closed = they are called")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    declare_running(parser)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    seen, _ = answers(arguments, {"do": "show"}, output)
    known = {str(row["key"]) for answer in seen for row in (answer.get("tasks") or {}).get("keys", ())}
    request = {"do": "breaker", "key": arguments.key, "state": arguments.state}
    found, refused = answers(arguments, request, output)
    rows = [{"pid": answer["pid"], "key": arguments.key, "breaker": arguments.state} for answer in found]
    if arguments.json:
        output.document("breaker", rows)
    else:
        output.table(rows, ("pid", "key", "breaker"))
    if arguments.key not in known and found:  # allowed: its orders may still come
        hint = nearest(arguments.key, known) or "`greenlane top --once` lists the keys"
        output.say(f"greenlane: no worker has had an order of the key {arguments.key!r}\nhint: {hint}")
    return 1 if refused else 0


COMMAND: Final = Command(
    "breaker", "open or close a key's breaker in the running workers", _declare, _run,
    examples=("greenlane breaker taco open", "greenlane breaker taco closed --pid 4711"),
)  # fmt: skip
