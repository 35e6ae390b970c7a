"""The rows as Markdown tables, one for each stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Final

from greenlane_tools.page.quantities import amount

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
        found = list(of_topic)
        parts += [_table(list(of_stage)) for _, of_stage in groupby(found, key=lambda row: row.stage)]
        parts += break_even(found) if topic == "compression" else []
    return "\n\n".join(parts) + "\n"


def in_short(rows: Iterable[Row]) -> str:
    """A line for each stage: the best switch, when one is worth it."""
    lines = [_line(["for one request", "best switch", "takes less"]), _line(["---", "---", "---:"])]
    for _, of_stage in groupby(rows, key=lambda row: (row.topic, row.stage)):
        found = list(of_stage)
        best = max(found, key=lambda row: row.ratio)
        clock = "wall time" if best.decided_by == "wall_ms" else "CPU"
        less = f"{amount(best.ratio)} × {clock}" if best.is_worth_it else ""
        lines.append(_line([found[0].stage, best.contender if less else f"none: {found[0].against}", less]))
    return "\n".join(lines) + "\n"


def break_even(rows: Iterable[Row]) -> list[str]:
    """Below which speed of the link a codec saves time: from its cost over loopback and the bytes that it saves."""
    said = []
    for stage, of_stage in groupby(rows, key=lambda row: row.stage):
        if not stage.endswith("loopback"):
            continue
        plain, *others = of_stage
        for row in others:
            slower_s, fewer = (row.wall_ms - plain.wall_ms) / 1e3, plain.bytes - row.bytes
            if slower_s > 0 and fewer > 0:
                speed = f"{fewer * 8 / slower_s / 1e6:.2g}"
                said.append(f"`{row.contender}` saves time below about {float(speed):,.0f} Mbit/s")
        if said:
            return [f"By what it costs over loopback and the bytes that it saves, of JSON: {', '.join(said)}."]
    return said


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
