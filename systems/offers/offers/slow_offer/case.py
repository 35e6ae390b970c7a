"""What `greenlane report` says of a recording, beside what the relay saw: the case of one slow offer.

The report is the command's own, run as a user runs it: the page, and its rows as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from greenlane_tools.lab.processes import StartFailed, found_by
from offers import table
from offers.children import ROOT
from offers.slow_offer.service import WATCHED
from offers.slow_offer.watched import Passed

__all__ = ["AGREES_MS", "Case", "agreement", "case_of", "draw", "rows_of"]

#: Upstream's clock and the wire's agree when they are not further apart, ms.
AGREES_MS: Final = 2.0
_GREENLANE: Final = (sys.executable, "-c", "import sys; from greenlane.cli.main import main; sys.exit(main())")
#: Of the recording's slowest jobs this many are looked at, the most that the report gives.
_LOOKED_AT: Final = 200

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Case:
    """One call of one offer, by every clock. Times in ms; None = that clock was not read."""

    route: str
    call: str
    trace: str | None
    #: By the upstream's own clock, as its reply says.
    upstream_ms: float
    #: On the wire: as the recording has it from the kernel's stamps, and as the relay between the two saw it.
    wire_ms: float
    relay_ms: float | None
    #: By the application's clock.
    application_ms: float
    factor: float
    #: Of the whole offer.
    offer_ms: float
    #: Who had the CPU meanwhile, most first: {"culprit", "wait_ms", "place"}.
    culprits: Sequence[Row]


def rows_of(recording: Path) -> list[Row]:
    """The report's rows, with the calls of its slowest jobs.

    Raises:
        StartFailed: the report failed.
    """
    rows: list[Row] = json.loads(_reported(recording, "--json", "--slowest", str(_LOOKED_AT)))["rows"]
    return rows


def case_of(rows: Iterable[Row], passed: Iterable[Passed] = ()) -> Case:
    """The slowest call of the watched upstream that an offer made.

    Args:
        rows: of the report.
        passed: what a relay has seen; a call is found in it by the upstream's clock, which is exact to the microsecond.

    Raises:
        StartFailed: no offer was recorded.
    """
    rows = list(rows)
    calls = [row for row in _timed(rows) if row["operation"].endswith(f"/{WATCHED}") and row["route"] in _offers()]
    if not calls:
        raise StartFailed(f"look for a slow offer: calls=0, expected one of {WATCHED} that tells its own clock")
    worst = max(calls, key=lambda row: float(row["seen_ms"]))
    which = worst["process"], worst["job"]
    job = next(row for row in rows if row["view"] == "job" and (row["process"], row["job"]) == which)
    seen = next((one for one in passed if one.own_ms == worst["own_ms"]), None)
    return Case(
        route=worst["route"],
        call=f"{worst['upstream']} {worst['operation']}",
        trace=job["trace"],
        upstream_ms=worst["own_ms"],
        wire_ms=worst["wire_ms"],
        relay_ms=None if seen is None else round(seen.wire_ns / 1e6, 3),
        application_ms=worst["seen_ms"],
        factor=worst["seen_ms"] / worst["own_ms"],
        offer_ms=job["latency_ms"],
        culprits=worst["culprits"],
    )


def agreement(rows: Iterable[Row], limit_ms: float = AGREES_MS) -> tuple[int, int]:
    """(calls whose upstream's clock and wire are within the limit, calls that have both) of the slowest jobs."""
    apart_ms = [abs(row["wire_ms"] - row["own_ms"]) for row in _timed(rows)]
    return sum(ms <= limit_ms for ms in apart_ms), len(apart_ms)


def draw(recording: Path, route: str, page: Path) -> None:
    """Write the report's page of one route: its slowest job stands first.

    Raises:
        StartFailed: the report failed.
    """
    _reported(recording, "--route", route, "-o", str(page))


def _timed(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row["view"] == "call" and row["own_ms"] and row["wire_ms"]]


def _offers() -> set[str]:
    return {f"GET {one.path}" for one in table.read().endpoints.values() if one.kind == "offer"}


def _reported(recording: Path, *options: str) -> str:
    command = [*_GREENLANE, "report", str(recording), *options]
    done = subprocess.run(command, env=found_by(ROOT), capture_output=True, text=True, check=False)
    if done.returncode:
        raise StartFailed(f"report on {recording}: exit code {done.returncode}, expected 0; it said:\n{done.stderr}")
    return done.stdout
