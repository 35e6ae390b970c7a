"""`greenlane config --learned FILE`: what a file of learned bursts holds."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from greenlane.cli.output import Output
from greenlane.errors import LearnedFileError

__all__ = ["show"]

COLUMNS: Final = ("route", "phase", "samples", "mean_ms", "released_frac")


def show(path: Path, output: Output, *, as_json: bool) -> int:
    """Prints the file; LearnedFileError where it cannot be read."""
    rows = _rows(path)
    if as_json:
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
            "phase": number,
            "samples": one.samples,
            "mean_ms": round(one.mean_ns / 1_000_000, 3),
            "released_frac": round(one.free / one.looks, 3) if one.looks else None,
        }
        for route, phases in sorted(stored.items())
        # The job's first phase first; a place itself tells people nothing.
        for number, one in enumerate(sorted(phases, key=lambda one: one.place != 0))
    ]
