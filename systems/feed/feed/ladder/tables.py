"""The result as people read it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from greenlane_tools.lab.columns import columns
from greenlane_tools.lab.demo import cell, must_show
from greenlane_tools.lab.verdict import Verdict
from greenlane_tools.page.quantities import share

from .article import PROFILE, Step, said
from .options import OURS
from .run import Result

Row = Mapping[str, Any]
_CELL: Final = (
    ("variant", "contender"), ("beside", "beside"), ("per s", "offered_per_s"), ("p50", "p50_ms"),
    ("p95", "p95_ms"), ("p99", "p99_ms"), ("in 500 ms", "within_deadline_frac"), ("CPU ms", "cpu_ms_per_job"),
    ("path CPU ms", "path_cpu_ms_per_job"), ("loop lag p99", "loop_lag_p99_ms"), ("moved MB", "bytes_moved_per_job"),
    ("n", "samples"),
)  # fmt: skip
_ITSELF: Final = (
    ("variant", "contender"), ("capacity/s", "capacity_per_s"), ("max/s p95≤500", "max_per_s"), ("memory MB", "pss_mb"),
    ("processes", "processes"), ("NDCG@100", "ndcg"), ("bounded by", "bounded_by"),
)  # fmt: skip
_STAGE: Final = (("stage", "stage"), ("CPU ms", "cpu_ms"), ("I/O ms", "io_ms"), ("wait ms", "wait_ms"))


def shown(result: Result, rows: Sequence[Row], verdicts: Sequence[Verdict], steps: Sequence[Step]) -> str:
    """All tables, verdicts and steps."""
    cells = [row for row in rows if row["stage"] is None]
    half = [row for row in cells if row["cell"] == "half"]
    ladder = [row for row in cells if row["cell"] != "half"]
    own = [row for row in half if row["contender"] == row["beside"] or row["contender"] != OURS]
    parts = [
        f"{result.users} users ask, {result.active} of them very active. CPU and memory are those of the service and "
        "its processes, not of stores and models.",
        "Each variant by itself\n" + columns(own, _ITSELF, _cell),
        f"Each variant at half of its capacity, and {OURS} on the same requests\n" + columns(half, _CELL, _cell),
    ]
    if ladder:
        parts.append("All on the same requests, at half of the pool's capacity\n" + columns(ladder, _CELL, _cell))
    parts.append("Where a request's time goes, at half of each variant's capacity\n" + _stages(rows))
    parts += [f"{OURS} places {one['function']}: {one['placement']} ({one['reason']})"
              for one in result.alone[OURS]["placements"]]  # fmt: skip
    parts.append("Shares of CPU\n" + _shares(result))
    if steps:
        parts.append("The article's steps\n" + "\n".join(map(said, steps)))
    parts.append(must_show(verdicts))
    return "\n\n".join(parts)


def _stages(rows: Sequence[Row]) -> str:
    parts = []
    for name in dict.fromkeys(row["contender"] for row in rows):
        mine = [
            row for row in rows
            if row["stage"] and row["contender"] == name and row["cell"] == "half" and row["beside"] in ("", name)
        ]  # fmt: skip
        mine.sort(key=lambda row: -(row["cpu_ms"] or 0.0))
        parts.append(f"{name}\n{columns(mine, _STAGE, _cell)}")
    return "\n".join(parts)


def _shares(result: Result) -> str:
    lines = []
    for name, found in result.alone.items():
        words = ", ".join(f"{part} {share(frac)}" for part, frac in found["shares"].items() if frac >= 0.001)
        lines.append(f"{name}: {words or 'not sampled'}")
    lines.append("the article's pool: " + ", ".join(f"{part} {share(frac)}" for part, frac in PROFILE.items()))
    return "\n".join(lines)


def _cell(name: str, value: object) -> str:
    if isinstance(value, float) and name == "bytes_moved_per_job":
        return cell(name, value / 1e6)
    return f"{value:.4f}" if isinstance(value, float) and name == "ndcg" else cell(name, value)
