"""`greenlane divert route`: a share of a route for another version of the application, set while it serves."""

from __future__ import annotations

import argparse
import getpass
import socket
import time
from typing import Final

from greenlane.cli.output import Output
from greenlane.cli.settings_flags import settings_of
from greenlane.cli.share_rows import COLUMNS, share_row, tables
from greenlane.diverted import Diverted
from greenlane.errors import FleetError
from greenlane_serve.diversion import change, read
from greenlane_serve.haproxy.runtime import Row as Counted
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.lanes import group_of, version_of
from greenlane_serve.whereabouts import folder_of
from greenlane_work.tasks.diversion.share import parsed_share

__all__ = ["run"]

Row = dict[str, object]
_ATTEMPT: Final = "divert a route"
_GROUPS: Final = ("shared", "lane-", "version-")
_COLUMNS: Final = {
    "share": COLUMNS,
    "group": ("group", "side", "workers", "current", "queued", "requests", "errors"),
}


def run(arguments: argparse.Namespace, output: Output) -> int:
    """Set or show it.

    Args:
        arguments: `route`, `to`, `share`, `status`, `json`, and the settings' flags.
        output: for rows and talk.
    """
    folder = folder_of(settings_of(arguments).bind[0], _ATTEMPT)
    runtime = Runtime(folder / "runtime")
    groups = [row for row in runtime.rows(server="BACKEND") if row.backend.startswith(_GROUPS)]
    if arguments.status:
        found = [one for one in read(folder) if arguments.route in ("", one.flow)]
        rows = [share_row(one, None) for one in found or [Diverted(arguments.route)]]
    else:
        wanted = Diverted(arguments.route, arguments.to, parsed_share(arguments.share), _who(), time.time())
        _refuse_idle(wanted, runtime)
        began_s = time.monotonic()
        set_now = change(folder, runtime, wanted)
        rows = [share_row(set_now, time.monotonic() - began_s)]
    rows += [_group_row(row, runtime) for row in groups]
    tables(rows, _COLUMNS, output, json=arguments.json)
    return 0


def _refuse_idle(wanted: Diverted, runtime: Runtime) -> None:
    """A version that no worker serves gets nothing: the front would go on with the old one, and nobody would know."""
    if not wanted.share_frac or not wanted.to:
        return
    there = runtime.rows(group_of(wanted.to))
    if not there:
        rule = "a version of the service that runs"
        hint = "name its directory in greenlane.toml ([versions]), and send HUP"
        raise FleetError(_ATTEMPT, name="--to", value=wanted.to, rule=rule, hint=hint)
    if not _workers(there):
        rule, hint = "a version whose workers serve", "see in the service's log what they say"
        raise FleetError(_ATTEMPT, name="--to", value=wanted.to, rule=rule, hint=hint)


def _who() -> str:
    return f"{getpass.getuser()}@{socket.gethostname()}"


def _group_row(row: Counted, runtime: Runtime) -> Row:
    version = version_of(row.backend)
    return {
        "row": "group",
        "group": version or row.backend,
        "side": "new" if version else "old",
        "workers": _workers(runtime.rows(row.backend)),
        "current": row.current,
        "queued": row.queued,
        "requests": row.requests,
        "errors": row.answers[4],
    }


def _workers(rows: list[Counted]) -> int:
    """Those that the front gives requests; it asks none, so a status is as they were told to be."""
    return sum(row.status == "no check" for row in rows if row.server != "BACKEND")
