"""What `greenlane serve` says of itself: `greenlane serve --status`, and for `greenlane top`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from greenlane.cli.output import Output
from greenlane.cli.settings_flags import effective_settings
from greenlane.control.client import ask
from greenlane.errors import ControlError
from greenlane_serve.folders import control_of, folder_of
from greenlane_serve.settings import ServeSettings

GROUP_COLUMNS: Final = (
    *("group", "workers", "serving", "at_once", "in_progress", "waiting", "queue_ms", "requests", "requests_per_s"),
    *("refused", "retries", "why"),
)
LANE_COLUMNS: Final = (
    *("lane", "kind", "group", "priority", "deadline_ms", "reserved", "places", "in_progress", "waiting", "queue_ms"),
    "refused",
)
FRONT_COLUMNS: Final = ("haproxy", "pid", "bind", "reloads")
WORKER_COLUMNS: Final = ("worker", "pid", "state", "in_progress", "at_once", "requests", "since_s")
ROUTE_COLUMNS: Final = ("route", "lane", "cpu_ms")

Answer = Mapping[str, Any]
Table = tuple[list[dict[str, object]], Sequence[str]]


class Services:
    """Answers of `show`, one look after the other; what has no field "serve" is passed over."""

    def __init__(self) -> None:
        self._before: dict[tuple[int, str], tuple[float, int]] = {}

    def take(self, found: Sequence[Answer], now_s: float) -> list[Table]:
        """Tables of each service; none of what there is none of. A service before its first look has none at all."""
        tables: list[Table] = []
        for answer in found:
            status = answer.get("serve") or {}
            front = dict(status.get("front", {}))
            fronts = [front | {"haproxy": front["version"], "bind": " ".join(front["bind"])}] if front else []
            groups = [self._group(int(answer["pid"]), row, now_s) for row in status.get("groups", ())]
            workers = [{**row, "worker": f"{row['group']}/{row['worker']}"} for row in status.get("workers", ())]
            lanes, routes = list(status.get("lanes", ())), list(status.get("routes", ()))
            tables += [(fronts, FRONT_COLUMNS)] if fronts else []
            tables += [(groups, GROUP_COLUMNS)] if groups else []
            # Without lanes that one is the group again.
            tables += [(lanes, LANE_COLUMNS)] if len(lanes) > 1 else []
            tables += [(workers, WORKER_COLUMNS)] if workers else []
            tables += [(routes, ROUTE_COLUMNS)] if routes else []
        return tables

    def _group(self, pid: int, row: Mapping[str, Any], now_s: float) -> dict[str, object]:
        key, requests = (pid, str(row["group"])), int(row["requests"])
        line: dict[str, object] = {**row}
        if key in self._before:
            then_s, before = self._before[key]
            line["requests_per_s"] = round(max(0, requests - before) / max(now_s - then_s, 1e-6), 1)
        self._before[key] = now_s, requests
        return line


_LOOK: Final = "look at the service"
# It looks at itself once a second, from when it serves on.
_FIRST_S: Final = 5.0
_PAUSE_S: Final = 0.1


def show(arguments: argparse.Namespace, output: Output) -> int:
    """Show it.

    Args:
        arguments: `json`, and the settings' flags: `bind` says which service.
        output: for rows.

    Raises:
        ControlError: none runs there, or it does not answer.
    """
    settings = effective_settings(arguments, ServeSettings)
    address = next(iter((*settings.bind, *settings.tls_bind)))
    answer = _answer(address)
    if arguments.json:
        output.document("serve", [{"pid": answer["pid"], **answer["serve"]}])
        return 0
    for number, (rows, columns) in enumerate(Services().take([answer], time.monotonic())):
        if number:
            output.line()
        output.table(rows, columns)
    return 0


def _answer(address: str) -> dict[str, Any]:
    control = control_of(folder_of(address, _LOOK))
    until_s = time.monotonic() + _FIRST_S
    while True:
        if control.exists():
            answer = ask(control, {"do": "show"})
            if answer.get("serve"):
                return answer
        if time.monotonic() > until_s:
            rule, hint = "one that has looked at itself", "see in its log why it does not"
            raise ControlError(_LOOK, name="bind", value=address, rule=rule, hint=hint)
        time.sleep(_PAUSE_S)
