"""`greenlane divert route`: a share of a route for another version of the application, set while it serves.

The command itself is greenlane-work's `greenlane divert`, which calls this one and prints what it gives.
"""

from __future__ import annotations

import argparse
import getpass
import socket
import time
from collections.abc import Callable, Sequence
from typing import Final

from greenlane.cli.settings_flags import effective_settings
from greenlane.errors import ServeError
from greenlane_serve.diversion import Diverted, change, hidden_by, read
from greenlane_serve.folders import folder_of
from greenlane_serve.haproxy.runtime import Row as Counted
from greenlane_serve.haproxy.runtime import Runtime
from greenlane_serve.lanes import group_of, version_of
from greenlane_serve.settings import ServeSettings

__all__ = ["COLUMNS", "run"]

Row = dict[str, object]
_ATTEMPT: Final = "divert a route"
_GROUPS: Final = ("shared", "lane-", "version-")
#: Of a group's row.
COLUMNS: Final = ("group", "side", "workers", "current", "queued", "requests", "errors")


def run(
    arguments: argparse.Namespace, share_frac: float | None, say: Callable[[str], None]
) -> tuple[Sequence[tuple[Diverted, float | None]], list[Row]]:
    """Set or read the share of a route.

    Args:
        arguments: `route`, `to`, and the settings' flags.
        share_frac: 0 to 1; None = change nothing.
        say: takes a line for the user.

    Returns:
        Shares, each with the seconds that setting it took (None = it was not set now), and one row for each group.
    """
    folder = folder_of(effective_settings(arguments, ServeSettings).bind[0], _ATTEMPT)
    runtime = Runtime(folder / "runtime")
    groups = [row for row in runtime.rows(server="BACKEND") if row.backend.startswith(_GROUPS)]
    shares: list[tuple[Diverted, float | None]]
    if share_frac is None:
        found = [one for one in read(folder) if arguments.route in ("", one.flow)]
        shares = [(one, None) for one in found or [Diverted(arguments.route)]]
    else:
        wanted = Diverted(arguments.route, arguments.to, share_frac, _who(), time.time())
        _refuse_idle(wanted, runtime)
        began_s = time.monotonic()
        set_now = change(folder, runtime, wanted)
        shares = [(set_now, time.monotonic() - began_s)]
        if share_frac and (above := hidden_by(read(folder), set_now.flow)):
            say(f"greenlane: {set_now.flow!r} has no effect: {above!r} was set first and takes all its requests; "
                f"give that one the share 0")  # fmt: skip
    return shares, [_group_row(row, runtime) for row in groups]


def _refuse_idle(wanted: Diverted, runtime: Runtime) -> None:
    """A version that no worker serves gets nothing: the front would silently go on with the old one."""
    if not wanted.share_frac or not wanted.to:
        return
    there = runtime.rows(group_of(wanted.to))
    if not there:
        rule = "a version of the service that runs"
        hint = "name its directory in greenlane.toml ([versions]), and send HUP"
        raise ServeError(_ATTEMPT, name="--to", value=wanted.to, rule=rule, hint=hint)
    if not _workers(there):
        rule, hint = "a version whose workers serve", "see in the service's log what they say"
        raise ServeError(_ATTEMPT, name="--to", value=wanted.to, rule=rule, hint=hint)


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
