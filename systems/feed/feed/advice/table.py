"""The rows as Markdown tables, one for each stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from .flame import Part
from .row import Row

TITLES: Final[Mapping[str, str]] = {
    "json": "Another JSON library",
    "validation": "Without validation",
    "formats": "Another format",
    "compression": "Compression, by the speed of the link",
    "collector": "The garbage collector",
}


def tables(rows: Iterable[Row], level: int = 2) -> str:
    """Everything, with headings."""
    parts = []
    for topic, of_topic in groupby(rows, key=lambda row: row.topic):
        parts.append(f"{'#' * level} {TITLES[topic]}")
        parts += [_table(list(of_stage)) for _, of_stage in groupby(of_topic, key=lambda row: row.stage)]
    return "\n\n".join(parts) + "\n"


def _table(rows: Sequence[Row]) -> str:
    sized = any(row.bytes for row in rows)
    by_wall = rows[0].decided_by == "wall_ms"
    heads = [rows[0].stage, "CPU, ms", "wall, ms", *(["MB"] if sized else []), "ratio", "advice"]
    lines = [_line(heads), _line(["---", *["---:"] * (len(heads) - 2), "---"])]
    for row in rows:
        sizes = [f"{row.bytes / 1e6:.3g}"] if sized else []
        # By which time the ratio is meant stands out.
        times = [f"{row.cpu_ms_per_job:.3g}", f"{row.wall_ms:.3g}"]
        times[by_wall] = f"**{times[by_wall]}**"
        lines.append(_line([row.contender, *times, *sizes, f"{row.ratio:.2f} ×", row.advice]))
    return "\n".join(lines)


def longest_parts(variant: str, parts: Sequence[Part]) -> str:
    """Functions by their own time."""
    lines = [_line([f"`{variant}`: function", "own time", "with what it calls"]), _line(["---", "---:", "---:"])]
    lines += [_line([f"`{part.function}`", f"{part.self_frac:.1%}", f"{part.total_frac:.1%}"]) for part in parts]
    return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
