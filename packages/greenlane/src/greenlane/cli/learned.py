"""`greenlane learned`: what stands in a file of learned bursts."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.errors import LearnedFileError

__all__ = ["COMMAND"]

COLUMNS: Final = ("route", "phase", "samples", "mean_ms", "released_frac")


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="the learned_file of a service")
    parser.add_argument("--json", action="store_true", help="one JSON object")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    rows = _rows(arguments.file)
    if arguments.json:
        output.document("learned", rows)
    else:
        output.table(rows, COLUMNS)
    return 0


def _rows(path: Path) -> list[dict[str, object]]:
    from greenlane.lanes import learned

    if not path.exists():  # to a service an absent file is an empty one; here it is a mistake
        hint = "name the service's learned_file: `greenlane config` prints it"
        raise LearnedFileError(
            "show a learned file", name="FILE", value=str(path), rule="a file that exists", hint=hint
        )
    stored = learned.load(path)
    return [
        {
            "route": route,
            "phase": one.phase,
            "samples": one.samples,
            "mean_ms": round(one.mean_ns / 1_000_000, 3),
            "released_frac": round(one.free / one.looks, 3) if one.looks else None,
        }
        for route, phases in sorted(stored.items())
        for one in phases
    ]


COMMAND: Final = Command("learned", "show a file of learned bursts", _declare, _run)
