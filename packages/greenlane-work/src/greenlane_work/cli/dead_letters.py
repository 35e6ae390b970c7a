"""`greenlane dead-letters`: orders that were given up, why, and sending them again."""

from __future__ import annotations

import argparse
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output
from greenlane_work.cli.secret import BROKER, broker_url

if TYPE_CHECKING:
    from greenlane_work.dead_letters import DeadLetter

__all__ = ["COMMAND"]

_COLUMNS: Final = ("order", "task", "reason", "said", "died_at", "attempts")


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("queue", metavar="QUEUE", help="the queue of the orders; its dead letters lie in QUEUE.dead")
    parser.add_argument("--broker", metavar="URL", help=f"as Celery's broker_url; default: {BROKER} in the environment")
    parser.add_argument("--send-again", action="store_true", help="put letters back into the queue they came from")
    parser.add_argument("--order", action="append", default=[], metavar="ID", help="this order only; may be repeated")
    parser.add_argument("--reason", default="", metavar="WORD", help="only those with this reason")
    parser.add_argument("--all", action="store_true", help="with --send-again: every letter")
    parser.add_argument("--most", type=int, default=1000, metavar="N", help="look at this many, the oldest (1000)")
    parser.add_argument("--json", action="store_true", help="one JSON object, with each letter's history")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    narrowed = bool(arguments.order or arguments.reason)
    if arguments.send_again and narrowed == arguments.all:
        arguments.parser.error("--send-again needs either --all, or --order or --reason")
    if arguments.all and not arguments.send_again:
        arguments.parser.error("--all goes with --send-again")
    if arguments.most < 1:
        arguments.parser.error("--most must be at least 1")
    with needed("celery", "look at dead letters"):
        import kombu  # noqa: F401
    from greenlane_work.dead_letters import dead_letters, send_again

    def chosen(letter: DeadLetter) -> bool:
        reason = letter.death.reason if letter.death is not None else ""
        return (not arguments.order or letter.order in arguments.order) and arguments.reason in ("", reason)

    broker = broker_url(arguments.broker)
    if arguments.send_again:
        found = send_again(broker, arguments.queue, chosen, arguments.most)
        output.say(f"sent again: {len(found)}")
    else:
        found = [each for each in dead_letters(broker, arguments.queue, arguments.most) if chosen(each)]
    rows = [_row(letter) for letter in found]
    if arguments.json:
        output.document("dead-letters", rows)
    elif rows:
        output.table(rows, _COLUMNS)
    elif not (arguments.send_again or arguments.order):
        output.say("no dead letters" + (f" of the reason {arguments.reason!r}" if arguments.reason else ""))
    missing = sorted(set(arguments.order) - {letter.order for letter in found})
    if missing:
        output.say(f"greenlane: no dead letter of the orders {', '.join(missing)} among the {arguments.most} oldest")
    return 1 if missing else 0


def _row(letter: DeadLetter) -> dict[str, object]:
    death = letter.death
    history = [asdict(tried) for tried in death.history] if death is not None else []
    return {
        "order": letter.order or None,
        "task": letter.task or None,
        "reason": death.reason if death is not None else None,
        "said": death.said if death is not None else None,
        "queue": death.queue if death is not None else None,
        "died_at": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(death.died_s)) if death is not None else None,
        "attempts": max((tried["attempt"] for tried in history), default=0),
        "body_bytes": len(letter.body),
        "history": history,
    }


COMMAND: Final = Command(
    "dead-letters", "show dead letters (tasks that were given up), or send them again", _declare, _run,
    examples=("greenlane dead-letters orders", "greenlane dead-letters orders --send-again --all"),
)  # fmt: skip
