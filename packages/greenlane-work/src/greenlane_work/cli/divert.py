"""`greenlane divert`: a share of a queue's orders for another queue, set and looked at while producers run."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from greenlane.cli.command import Command
from greenlane.cli.extra import needed
from greenlane.cli.output import Output, Row
from greenlane.cli.settings_flags import declare_settings, effective_settings
from greenlane.errors import DiversionError, SettingsError
from greenlane_work.cli.secret import BROKER, broker_url, refuse_passwords
from greenlane_work.settings import WorkSettings

if TYPE_CHECKING:
    from greenlane_work.diversion.share import Share, SharePlace, Sighting

__all__ = ["COMMAND"]

_MOST_WAIT_S: Final = 3600
_BROKER_TIMEOUT_S: Final = 5.0
_COLUMNS: Final = {
    "share": ("flow", "to", "share_frac", "set_by", "set_at", "effect_s"),
    "producer": ("producer", "seen", "share_frac", "seen_after_s", "said_ago_s", "trouble"),
    "queue": ("queue", "side", "ready", "consumers"),
}


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("flow", metavar="QUEUE", help="the queue that orders go to now (orders)")
    parser.add_argument("--to", default="", metavar="NAME", help="the new queue (default: the last one named)")
    parser.add_argument("--share", metavar="SHARE", help="share to divert: 30%%, 0.3, 0; raising it only adds orders")
    parser.add_argument("--status", action="store_true", help="only show what is set, and which producers have seen it")
    parser.add_argument(
        "--broker", nargs="?", const="", metavar="URL",
        help=f"also count the orders that wait on both sides, at this broker or that of {BROKER} in the environment",
    )  # fmt: skip
    parser.add_argument(
        "--wait-s", type=float, default=5.0, metavar="S", help="how long to wait until all producers have seen it (5)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object")
    declare_settings(parser, WorkSettings, ("diversion",))


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_work.diversion.opening import open_place
    from greenlane_work.diversion.share import checked_name

    if arguments.share is None and not arguments.status:
        arguments.parser.error("one of --share and --status is needed")
    if arguments.share is not None and arguments.status:
        arguments.parser.error("--status changes nothing: leave out --share, or --status")
    if arguments.to and arguments.share is None:
        arguments.parser.error("--to needs --share")
    if not 0 <= arguments.wait_s <= _MOST_WAIT_S:
        arguments.parser.error(f"--wait-s must be from 0 to {_MOST_WAIT_S}")
    broker = None if arguments.broker is None else broker_url(arguments.broker)
    refuse_passwords("--diversion", [getattr(arguments, "setting.diversion") or ""], "GREENLANE_DIVERSION")
    url = effective_settings(arguments, WorkSettings).diversion
    if not url:
        hint = "name it with --diversion, GREENLANE_DIVERSION or in greenlane.toml, as the producers do"
        raise SettingsError("diversion", url, "where the shares lie: file:///FOLDER or redis://…", hint)
    place = open_place(url)
    checked_name("QUEUE", arguments.flow)
    rows, code = _status(place, arguments) if arguments.status else _set(place, arguments, output)
    if broker is not None:
        with needed("celery", "count waiting orders"):
            import kombu  # noqa: F401
        rows += _queues(broker, rows[0])
    _show(rows, _COLUMNS, output, json=arguments.json)
    return code


def _status(place: SharePlace, arguments: argparse.Namespace) -> tuple[list[Row], int]:
    share = place.read(arguments.flow)
    return [_share_row(share, None), *_producer_rows(share, place.sightings(arguments.flow))], 0


def _set(place: SharePlace, arguments: argparse.Namespace, output: Output) -> tuple[list[Row], int]:
    from greenlane_work.diversion.effect import set_share, wait_seen
    from greenlane_work.diversion.share import parsed_share

    share = set_share(place, arguments.flow, parsed_share(arguments.share), arguments.to)
    effect = wait_seen(place, share, arguments.wait_s)
    if effect.unseen:
        names = ", ".join(each.producer for each in effect.unseen)
        output.say(f"greenlane: not seen within {effect.seconds:.2g} s by {names}")
    elif effect.seen:
        output.say(f"seen by all {len(effect.seen)} producers after {effect.seconds:.2f} s")
    else:
        output.say("no producer has said anything within 15 s: those that start see it at once")
    rows = _producer_rows(share, [*effect.seen, *effect.unseen])
    return [_share_row(share, effect.seconds if effect.seen else None), *rows], 1 if effect.unseen else 0


def _share_row(share: Share, effect_s: float | None) -> Row:
    """The row of a share: what is set, its author, and how long it took to take effect; None = nothing has changed."""
    set_at = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(share.set_s)) if share.set_s else None
    return {
        "row": "share",
        "flow": share.flow,
        "to": share.to or None,
        "share_frac": share.share_frac,
        "set_by": share.set_by or None,
        "set_at": set_at,
        "set_s": share.set_s or None,
        "effect_s": None if effect_s is None else round(effect_s, 4),
        "revision": share.revision,
    }


def _producer_rows(share: Share, sightings: Sequence[Sighting]) -> list[Row]:
    now_s = time.time()
    return [
        {
            "row": "producer",
            "producer": each.producer,
            "seen": each.revision >= share.revision,
            "share_frac": each.share_frac,
            "seen_s": each.seen_s,
            "seen_after_s": round(each.seen_s - share.set_s, 3) if each.revision == share.revision > 0 else None,
            "said_ago_s": round(max(now_s - each.said_s, 0.0), 1),
            "trouble": each.trouble or None,
        }
        for each in sightings
    ]


def _queues(broker: str, share: Row) -> list[Row]:
    """How many orders wait on both sides, as the broker counts them. Changes nothing, and makes no queue."""
    from greenlane_work.broker import connected, declared

    sides = {str(share["flow"]): "old", **({str(share["to"]): "new"} if share["to"] else {})}
    with connected(broker, "count waiting orders", DiversionError, _BROKER_TIMEOUT_S) as connection:
        is_amqp = connection.transport.driver_type == "amqp"
        found = {queue: declared(connection, queue) for queue in sides}
    # Redis counts no consumers, and knows of no queue that is empty; on others None = there is no such queue.
    none = (None if is_amqp else 0, None)
    return [
        {
            "row": "queue",
            "queue": queue,
            "side": side,
            "ready": (found[queue] or none)[0],
            "consumers": (found[queue] or none)[1] if is_amqp else None,
        }
        for queue, side in sides.items()
    ]


def _show(rows: Sequence[Row], columns: Mapping[str, Sequence[str]], output: Output, *, json: bool) -> None:
    """One JSON object, or a table for each kind of row (its field "row") that there is."""
    if json:
        output.document("divert", rows)
        return
    for kind, names in columns.items():
        if of_kind := [row for row in rows if row["row"] == kind]:
            output.table(of_kind, names)


COMMAND: Final = Command(
    "divert", "send a share of orders to another queue", _declare, _run,
    examples=("greenlane divert orders --to orders-v2 --share 30%", "greenlane divert orders --status"),
)  # fmt: skip
