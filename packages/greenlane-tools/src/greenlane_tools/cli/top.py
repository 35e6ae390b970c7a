"""`greenlane top`: what the running processes do, where their jobs' time goes, and what they have learned, live."""

from __future__ import annotations

import argparse
import contextlib
import shutil
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from greenlane.cli import record_live
from greenlane.cli.command import Command
from greenlane.cli.output import Output, cell
from greenlane.cli.running import answers, declare_running
from greenlane.errors import ControlError
from greenlane_serve.cli.status import Services
from greenlane_tools.cli.top_attach import attached
from greenlane_tools.cli.top_record import PROCESS_COLUMNS as RECORD_COLUMNS
from greenlane_tools.cli.top_record import ROUTE_COLUMNS, LiveVerdict, Looks
from greenlane_tools.cli.top_screen import SORTS, Screen, fitted
from greenlane_tools.report.text import plain

__all__ = ["COMMAND", "functions", "phases", "totals", "turns"]

PROCESS_COLUMNS: Final = (
    *("pid", "mode", "jobs", "jobs_per_s", "late"),
    *("granted", "waited", "wait_ms", "hold_ms", "lent", "skipped", "would_wait"),
)
PHASE_COLUMNS: Final = ("route", "phase", "samples", "expected_ms", "weight", "pinned", "released_frac")

TURN_COLUMNS: Final = (
    *("route", "turns", "waited", "express", "shared", "charged", "skipped"),
    *("pays_ms", "gains_ms"),
)

PLACED_COLUMNS: Final = ("function", "placement", "calls", "expected_ms", "pinned", "released_frac", "reason")

ORDER_COLUMNS: Final = ("pid", "slots", "running", "parked", "done", "retried", "dead", "returned", "abandoned")
KEY_COLUMNS: Final = (
    *("key", "running", "parked", "oldest_s", "limit", "breaker", "usual_ms"),
    *("failed_frac", "slow_frac", "ok", "failed", "timed_out", "refused"),
)

Answer = Mapping[str, Any]


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="a running recording: its file, or a process id")
    parser.add_argument("--once", action="store_true", help="print once and end")
    parser.add_argument("--json", action="store_true", help="print one JSON object once, one row per process")
    parser.add_argument("--every", type=_seconds, default=1.0, metavar="S", help="seconds between updates (1)")
    parser.add_argument("--route", default="", metavar="TEXT", help="only routes whose name contains TEXT")
    parser.add_argument(
        "--sort", choices=ROUTE_COLUMNS, metavar="COLUMN", help="sort routes by this, largest first, such as p99_ms"
    )
    declare_running(parser)


def _seconds(text: str) -> float:
    with contextlib.suppress(ValueError):
        if 0.1 <= float(text) <= 3600:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r}, expected a number from 0.1 to 3600 (s)")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    with attached(arguments.target, output) as arguments.target:
        return _looked(arguments, output)


def _looked(arguments: argparse.Namespace, output: Output) -> int:
    found, refused = _asked(arguments, output)
    verdicts = LiveVerdict(arguments.target)
    if arguments.json:
        verdict = verdicts.take(time.monotonic())
        output.document("top", map(_document_row, found), verdict=verdict.to_json() if verdict else None)
        return 1 if refused else 0
    earlier: dict[int, tuple[float, int]] = {}
    looks, services = Looks(arguments.route, arguments.sort), Services()
    screen = Screen(output, live=not arguments.once)
    with contextlib.nullcontext() if arguments.once else screen.taken():
        while True:
            _show(found, earlier, looks, services, verdicts, screen, live=not arguments.once)
            if arguments.once:
                return 1 if refused else 0
            screen.show_keys(looks.sort)
            key = screen.wait(arguments.every)
            if key == "q":
                return 0
            if key in SORTS:
                looks.sort = SORTS[key][0]
            try:
                found, _ = _asked(arguments, output)
            except ControlError as error:  # a service that restarts comes back
                output.say(f"greenlane: {error}")


def _asked(arguments: argparse.Namespace, output: Output) -> tuple[list[dict[str, Any]], int]:
    """What the processes answer, and how many did not."""
    if arguments.target is None:
        return answers(arguments, {"do": "show"}, output)
    listening = record_live.found(arguments.target)
    answered = record_live.ask_all(listening, {"do": "show"}, output)
    return answered, len(listening) - len(answered)


def _document_row(answer: Answer) -> dict[str, object]:
    row = {name: answer[name] for name in ("pid", "mode", "counters", "learned")}
    return row | {name: answer[name] for name in ("record", "tasks", "serve", "turns") if name in answer}


def _show(
    found: Sequence[Answer],
    earlier: dict[int, tuple[float, int]],
    looks: Looks,
    services: Services,
    verdicts: LiveVerdict,
    screen: Screen,
    *,
    live: bool,
) -> None:
    now = time.monotonic()
    served = services.take(found, now)
    found = [answer for answer in found if "serve" not in answer]
    recorded, routes = looks.take(found, now)
    # A process that only records has no permits to speak of.
    permitted = [answer for answer in found if not {"record", "tasks"} & answer.keys() or answer["counters"]]
    orders = [_orders(answer) for answer in found if "tasks" in answer]
    keys = [row for answer in found for row in answer.get("tasks", {}).get("keys", ())]
    rows = []
    for answer in permitted:
        row = totals(answer)
        jobs = int(answer["counters"].get("jobs", 0))
        if answer["pid"] in earlier:
            then, before = earlier[answer["pid"]]
            row["jobs_per_s"] = round((jobs - before) / (now - then), 1)
        earlier[answer["pid"]] = (now, jobs)
        rows.append(row)
    learned = phases(permitted)
    placed = functions(permitted)
    taken = turns(permitted)
    verdict = verdicts.take(now)
    if live and screen.is_live:
        head = 5 * (verdict is not None)
        room = shutil.get_terminal_size().lines - len(rows) - len(recorded) - len(placed) - 6 - head
        room -= sum(len(lines) + 2 for lines, _ in served)
        routes = routes[: max(3, room - 4)]
        learned = learned[: max(1, room - len(routes))]
        taken = taken[: max(1, room - len(routes) - len(learned) - 2)]
    tables: list[tuple[list[dict[str, object]], Sequence[str]]] = [*served]
    tables += [(recorded, RECORD_COLUMNS), (routes, ROUTE_COLUMNS)] if recorded else []
    tables += [(orders, ORDER_COLUMNS), (keys, KEY_COLUMNS)] if orders else []
    tables += [(rows, PROCESS_COLUMNS), (learned, PHASE_COLUMNS)] if rows or not (recorded or served or orders) else []
    tables += [(taken, TURN_COLUMNS)] if taken else []
    tables += [(placed, PLACED_COLUMNS)] if placed else []
    with screen.drawing() as output:
        if verdict is not None:
            for said, style in ((verdict.sentence, "bold"), (f"Do: {verdict.remedy.text}.", "")):
                for line in textwrap.wrap(plain(said), screen.columns or len(said) + 1):
                    output.line(output.styled(line, style) if style else line)
            output.line()
        for number, (lines, columns) in enumerate(tables):
            if number:
                output.line()
            output.table(*(fitted(lines, columns, screen.columns, cell) if live else (lines, columns)))
        if live and not screen.is_live:
            output.line()


def _orders(answer: Answer) -> dict[str, object]:
    """The line of one worker of orders."""
    tasks: Mapping[str, Any] = answer["tasks"]
    totals = tasks["totals"]
    row = {name: tasks[name] for name in ("slots", "running", "parked", "abandoned")}
    ended = {name: totals[f"orders_{name}"] for name in ("done", "retried", "dead", "returned")}
    return {"pid": answer["pid"], **row, **ended}


def totals(answer: Answer) -> dict[str, object]:
    """The line of one process: counters since its start, times in milliseconds."""
    counters: Mapping[str, int] = answer["counters"]
    return {
        "pid": answer["pid"],
        "mode": answer["mode"],
        "jobs": counters.get("jobs", 0),
        "late": counters.get("jobs_late", 0),
        "granted": counters.get("granted", 0) + counters.get("waited_granted", 0),
        "waited": counters.get("waited", 0),
        "wait_ms": counters.get("wait_ns", 0) // 1_000_000,
        "hold_ms": counters.get("hold_ns", 0) // 1_000_000,
        "lent": _sum(counters, "lent_"),
        "skipped": _sum(counters, "skipped_"),
        "would_wait": counters.get("would_wait", 0),
    }


def turns(found: Sequence[Answer]) -> list[dict[str, object]]:
    """One line a route over all processes, the most turns first.

    `pays_ms`: its phases waited for permits. `gains_ms`: others waited while it had one. None: in mode observe nobody
    waits, and what they would be cannot be told from it (docs/design/0024).
    """
    waits = {str(route) for answer in found if answer["mode"] != "observe" for route in answer.get("turns", {})}
    summed: dict[str, dict[str, int]] = {}
    for answer in found:
        for route, counters in answer.get("turns", {}).items():
            row = summed.setdefault(str(route), {})
            for name, value in counters.items():
                row[name] = row.get(name, 0) + int(value)
    rows: list[dict[str, object]] = [
        {
            "route": route,
            **row,
            "pays_ms": row["waited_ns"] // 1_000_000 if route in waits else None,
            "gains_ms": row["others_waited_ns"] // 1_000_000 if route in waits else None,
        }
        for route, row in summed.items()
    ]
    return sorted(rows, key=lambda row: (-int(str(row["turns"])), str(row["route"])))


def phases(found: Iterable[Answer]) -> list[dict[str, object]]:
    """One line a (route, phase) over all processes, the longest expected burst first.

    `expected_ms` and `released_frac` are means weighted with the samples; `weight` is "mixed" where processes differ.
    """
    grouped: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for answer in found:
        for row in (row for row in answer["learned"] if not row.get("placement")):
            grouped.setdefault((str(row["route"]), int(row["phase"])), []).append(row)
    rows = [_merged(route, phase, of) for (route, phase), of in grouped.items()]
    return sorted(rows, key=lambda row: (-float(str(row["expected_ms"])), str(row["route"]), int(str(row["phase"]))))


def functions(found: Iterable[Answer]) -> list[dict[str, object]]:
    """One line a placed function over all processes, by name; where they differ: the choice of the one that knows most.

    `expected_ms` and `released_frac` are means weighted with the calls.
    """
    grouped: dict[str, list[Mapping[str, Any]]] = {}
    for answer in found:
        for row in (row for row in answer["learned"] if row.get("placement")):
            grouped.setdefault(str(row["route"]), []).append(row)
    return [_function(name, rows) for name, rows in sorted(grouped.items())]


def _function(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    best = max(rows, key=lambda row: int(row["samples"]))
    merged = _merged(name, 0, rows)
    places = {str(row["placement"]) for row in rows}
    return {
        "function": name.removeprefix("run "),
        "placement": best["placement"] if len(places) == 1 else "mixed",
        "calls": merged["samples"],
        "expected_ms": merged["expected_ms"],
        "pinned": merged["pinned"],
        "released_frac": merged["released_frac"],
        "reason": best["reason"],
    }


def _merged(route: str, phase: int, rows: Sequence[Mapping[str, Any]]) -> dict[str, object]:
    weights = {str(row["weight"]) for row in rows}
    return {
        "route": route,
        "phase": phase,
        "samples": sum(row["samples"] for row in rows),
        "expected_ms": round(_mean(rows, "expected_ms"), 2),
        "weight": weights.pop() if len(weights) == 1 else "mixed",
        "pinned": "yes" if any(row["pinned"] for row in rows) else "",
        "released_frac": round(_mean(rows, "released_frac"), 2),
    }


def _mean(rows: Sequence[Mapping[str, Any]], name: str) -> float:
    samples = sum(int(row["samples"]) for row in rows)
    if not samples:
        return float(rows[0][name])
    return sum(float(row[name]) * int(row["samples"]) for row in rows) / samples


def _sum(counters: Mapping[str, int], prefix: str) -> int:
    return sum(value for name, value in counters.items() if name.startswith(prefix))


COMMAND: Final = Command(
    "top", "show what running processes do and have learned, live", _declare, _run,
    examples=("greenlane top", "greenlane top --once --control-dir /run/greenlane"),
)  # fmt: skip
