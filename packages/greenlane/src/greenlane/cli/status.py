"""`greenlane status`: one look at the running processes, over their control sockets."""

from __future__ import annotations

import argparse
from typing import Any, Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.cli.running import answers, declare_running

__all__ = ["COMMAND"]

_COLUMNS: Final = ("pid", "mode", "jobs", "granted", "waited", "wait_ms")


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object, one row per process")
    declare_running(parser)


def _cores(gang: dict[str, Any]) -> str:
    """Say which cores its threads use, and why."""
    kept = f"keep to core {gang['core']}" if gang["core"] is not None else f"use all cores: {gang['why']}"
    if gang["one_core_us"] is None:
        return f"threads that run jobs {kept}"
    cost = f"{gang['one_core_us']:g} us on one core, {gang['two_cores_us']:g} on two"
    return f"threads that run jobs {kept} (a hand-over costs {cost})"


def _run(arguments: argparse.Namespace, output: Output) -> int:
    found, refused = answers(arguments, {"do": "show"}, output)
    rows = []
    for answer in found:
        counted = answer["counters"]
        waited = counted.get("waited_granted", 0)
        rows.append(
            {
                "pid": answer["pid"],
                "mode": answer["mode"],
                "jobs": counted.get("jobs", 0),
                "granted": counted.get("granted", 0) + waited,
                "waited": waited,
                "wait_ms": counted.get("wait_ns", 0) // 1_000_000,
                "gang": answer.get("gang"),
            }
        )
    if arguments.json:
        output.document("status", rows)
    else:
        output.table(rows, _COLUMNS)
        for row in rows:
            if row["gang"] is not None:
                output.line(f"process {row['pid']}: {_cores(row['gang'])}")
            if row["mode"] == "off":
                output.say(f"greenlane: mode off counts nothing: figures of process {row['pid']} are from before")
    return 1 if refused else 0


COMMAND: Final = Command(
    "status", "show the running processes once: mode, jobs, waits for a permit", _declare, _run,
    examples=("greenlane status", "greenlane status --control-dir /run/greenlane --json"),
)  # fmt: skip
