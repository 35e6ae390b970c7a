"""`greenlane plan selftest`: the simulator against theory, bounds and tables of other programs."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from greenlane.cli.command import Command
from greenlane.cli.output import Output
from greenlane.cli.progress import bar
from greenlane.errors import SettingsError

if TYPE_CHECKING:
    from greenlane_tools.plan.selftest import SelftestRow

__all__ = ["COMMAND"]

_COLUMNS: Final = ("case", "unit", "expected", "simulated", "error_frac", "tolerance_frac", "holds")
_ATTEMPT: Final = "test the simulator"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--groups", metavar="NAMES", default="", help="separated by commas (all)")
    parser.add_argument(
        "--part", metavar="FRAC", type=_part, default=1.0, help="of the requests; the tolerances are for all (1)"
    )
    json_help = "one JSON object: a row for each figure; expected_ms and simulated_ms of each but shares"
    parser.add_argument("--json", action="store_true", help=json_help)


def _part(text: str) -> float:
    try:
        part = float(text)
    except ValueError:
        part = 0.0
    if 0 < part <= 1:
        return part
    raise argparse.ArgumentTypeError(f"{text!r}, expected a number over 0 up to 1")


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from greenlane_tools.plan import selftest

    groups = tuple(filter(None, (name.strip() for name in arguments.groups.split(",")))) or selftest.GROUPS
    if strange := set(groups) - set(selftest.GROUPS):
        rule = f"some of {', '.join(selftest.GROUPS)}"
        raise SettingsError("--groups", min(strange), rule, "separate them by commas", attempted=_ATTEMPT)
    with bar(output, "selftest") as progress:
        rows = selftest.run(groups, part=arguments.part, progress=progress)
    wrong = [row for row in rows if not row.holds]
    if arguments.json:
        output.document("plan-selftest", [row.to_json() for row in rows])
    else:
        output.table([_shown(row) for row in rows], _COLUMNS)
    output.say(f"{len(rows) - len(wrong)} of {len(rows)} figures within their tolerance")
    return 1 if wrong else 0


def _shown(row: SelftestRow) -> dict[str, object]:
    return {
        "case": row.case,
        "unit": row.unit,
        "expected": float(f"{row.expected:.5g}"),
        "simulated": float(f"{row.simulated:.5g}"),
        "error_frac": round(row.error_frac, 4),
        "tolerance_frac": row.tolerance_frac,
        "holds": row.holds,
    }


COMMAND: Final = Command("selftest", "the simulator against theory, bounds and other programs' tables", _declare, _run)
