"""The ladder's rows, as far as drawings look at them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

OURS: Final = "greenlane"


@dataclass(frozen=True)
class Step:
    """One variant of the ladder.

    Args:
        name: the variant.
        p95_ms: of its requests at half of its own capacity.
        ours_p95_ms: of `greenlane`'s at the same rate, beside it; None for `greenlane` itself, or when not measured.
        per_s: that rate; 0 = not known.
        stages: name -> wall_ms, cpu_ms, io_ms, wait_ms of a request, in the order in which they begin.
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
    rows = [row for row in json.loads(path.read_text("utf-8"))["rows"] if row.get("p95_ms") is not None]
    if not rows:
        raise ValueError(f"drawing the ladder: rows={str(path)!r}, expected rows with p95_ms")
    names = dict.fromkeys(row["contender"] for row in rows)
    return [_step(name, rows) for name in names]


def _step(name: str, rows: list[dict[str, Any]]) -> Step:
    """The variant's own rows in one: `greenlane` has a row beside each of the others, too."""
    own = [row for row in rows if row["contender"] == name]
    first = own[0]
    beside = [row for row in rows if row["contender"] == OURS and _same_cell(row, first)] if name != OURS else []

    def found(key: str) -> Any:
        return next((row[key] for row in own if row.get(key)), {})

    return Step(
        name=name,
        p95_ms=float(first["p95_ms"]),
        ours_p95_ms=float(beside[0]["p95_ms"]) if beside else None,
        per_s=float(first.get("offered_per_s") or 0),
        stages=found("stages"),
        parts_cpu_ms=found("parts_cpu_ms") or _known_parts(found("cpu_ms_per_job")),
    )


def _same_cell(row: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    for key in ("beside", "cell"):
        if row.get(key) is not None:
            return bool(row[key] in (other["contender"], other.get(key)))
    return bool(row.get("offered_per_s") is not None and row.get("offered_per_s") == other.get("offered_per_s"))


def _known_parts(cpu_ms: float | Mapping[str, float]) -> Mapping[str, float]:
    """Service and workers together, when nobody told them apart."""
    return {"service": cpu_ms} if isinstance(cpu_ms, float | int) else {}
