"""The text of a run: rows and verdicts as people read them, and what makes them less than they look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from greenlane_tools.lab.placement.rows import Row
from greenlane_tools.lab.placement.verdicts import Choice, Verdict
from greenlane_tools.lab.statistics import enough

__all__ = ["COLUMNS", "place", "shown_rows", "warnings"]

#: Of the table, in order.
COLUMNS: Final = (
    "function", "callers", "contender", "p50_ms", "p99_ms", "cpu_ms_per_job", "heartbeat_p99_ms", "bytes_in_band",
    "bytes_out_of_band", "samples", "errors", "said",
)  # fmt: skip
_DIGITS: Final[Mapping[str, int]] = {"p50_ms": 2, "p99_ms": 2, "cpu_ms_per_job": 2, "heartbeat_p99_ms": 2}
#: Others that use more cores than this spoil the figures.
_NOISE_CORES: Final = 0.1
_SAID: Final = 100


def shown_rows(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Rows for a table: rounded, with what is missing or was chosen at the end of the line."""
    found = []
    for row in rows:
        cells = {name: row.get(name) for name in COLUMNS}
        cells |= {name: None if row[name] is None else round(row[name], digits) for name, digits in _DIGITS.items()}
        said = row["missing"] or row["chosen"]
        found.append(cells | {"function": row["function"] or "-", "said": said[:_SAID]})
    return found


def place(one: Choice | Verdict) -> str:
    """Which function, by how many callers."""
    return f"{one.function}, {one.callers} caller{'s' * (one.callers != 1)}"


def warnings(rows: Sequence[Row]) -> Iterator[str]:
    """What makes the figures less than they look, with a remedy."""
    most = max((row["others_cores"] or 0.0 for row in rows), default=0.0)
    if most > _NOISE_CORES:
        yield f"others used up to {most:.1f} cores meanwhile: stop them and run again, the figures are too slow"
    if any(0 < row["samples"] < enough(0.99) for row in rows if row["function"]):
        yield f"fewer than {enough(0.99)} calls in some rows: their p99 is rough; more --seconds or --calls"
    if any(row["repetitions"] == 1 for row in rows):
        yield "one repetition: a difference of some percent means nothing; --repetitions 5 gives intervals"
