"""The ladder's rows, as far as drawings look at them: a row for each cell, and one for each stage of a cell."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

OURS: Final = "greenlane"
# Cells: each variant at half of its capacity, and all of them at one rate.
_HALF, _ONE_RATE = "half", "at the pool's rate"

Json = Mapping[str, Any]


@dataclass(frozen=True)
class Step:
    """One variant of the ladder.

    Args:
        name: the variant.
        p95_ms: of its requests at half of its own capacity.
        ours_p95_ms: of `greenlane`'s at the same rate, beside it; None for `greenlane` itself, or when not measured.
        per_s: that rate; 0 = not known.
        stages: name -> wall_ms, cpu_ms, io_ms, wait_ms of a request, in the order in which they begin; of the cell in
            which all have one rate, if there is one.
        parts_cpu_ms: CPU of a request by part of the system: service, workers, history, models, shards.
    """

    name: str
    p95_ms: float
    ours_p95_ms: float | None = None
    per_s: float = 0.0
    stages: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    parts_cpu_ms: Mapping[str, float] = field(default_factory=dict)


def steps(path: Path) -> list[Step]:
    """The steps of a rows.json, in its order.

    Raises:
        ValueError: there is no row with a p95.
    """
    rows: list[Json] = json.loads(path.read_text("utf-8"))["rows"]
    cells = [row for row in rows if not row.get("stage") and row.get("p95_ms") is not None]
    if not cells:
        raise ValueError(f"drawing the ladder: rows={str(path)!r}, expected rows with p95_ms")
    return [_step(name, cells, rows) for name in dict.fromkeys(row["contender"] for row in cells)]


def _step(name: str, cells: Sequence[Json], rows: Sequence[Json]) -> Step:
    own = [row for row in cells if row["contender"] == name]
    # `greenlane` is in a cell beside each of the others, too.
    first = min(own, key=lambda row: (row.get("cell", _HALF) != _HALF, row.get("beside", "") not in ("", name)))
    beside = [row for row in cells if row["contender"] == OURS and row.get("beside") == name] if name != OURS else []
    return Step(
        name=name,
        p95_ms=float(first["p95_ms"]),
        ours_p95_ms=float(beside[0]["p95_ms"]) if beside else None,
        per_s=float(first.get("offered_per_s") or 0),
        stages=_stages(name, rows),
        parts_cpu_ms=_parts(own, first),
    )


def _stages(name: str, rows: Sequence[Json]) -> dict[str, dict[str, float]]:
    """Of one cell: wall time is the sum of the parts."""
    of_stages = [row for row in rows if row["contender"] == name and row.get("stage")]
    cells = {(row.get("cell"), row.get("beside")) for row in of_stages}
    if not cells:
        return {}
    cell = min(cells, key=lambda cell: (cell[0] != _ONE_RATE, cell[1] not in ("", None, name), str(cell)))
    found = {}
    for row in of_stages:
        if (row.get("cell"), row.get("beside")) == cell:
            parts = {part: float(row.get(part) or 0.0) for part in ("cpu_ms", "io_ms", "wait_ms")}
            found[row["stage"]] = {**parts, "wall_ms": sum(parts.values())}
    return found


def _parts(own: Sequence[Json], first: Json) -> Mapping[str, float]:
    for row in own:
        if row.get("parts_cpu_ms"):
            known: Mapping[str, float] = row["parts_cpu_ms"]
            return known
    # Service and workers together, when nobody told them apart.
    cpu_ms = first.get("cpu_ms_per_job")
    return {} if cpu_ms is None else {"service": float(cpu_ms)}
