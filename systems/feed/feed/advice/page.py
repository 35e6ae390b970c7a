"""advice.md: the page of a run, from its `--json` object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from greenlane_tools.page.quantities import amount

from .row import Row

_HEAD: Final = """\
# The article's advice, measured

Beside its rewrite the article gives advice that costs less: look at the longest-running parts, drop needless
validation, take another JSON library, compress, store in another format. Each is a switch here, measured on what one
request of this service handles: some 3,000 items of 50 fields.

```sh
cd systems/feed
../../.venv/bin/python -m feed.advice                       # every switch: a minute or two, on a quiet machine
../../.venv/bin/python -m feed.advice --only json,formats   # some
```

**How to read it.** Each row is compared with its table's first; the ratio says how many times less it takes, by
the time in bold. Switches are measured in turn within one process; the ratio is the median over pairs, and advice
follows from their quartiles: *worth it* and *no* where they agree that it is over 5 %. CPU counts all threads, sender
and receiver; a link is a real connection through a proxy process that hands on no faster than the link's speed. What it
does not show: other machines' speeds, a network's round trips, and latency when many requests share the loop; the
ladder measures that.

"""


def page(document: Mapping[str, Any]) -> str:
    """The page of a `--json` object."""
    rows = [Row(**row_fields(row)) for row in document["rows"]]
    found = document["environment"]
    where = f"{found['processor']}, {found['cores']} cores, CPython {found['python']}"
    return (
        _HEAD
        + f"Measured on: {where}; {document['repetitions']} repetitions.\n\n"
        + "## In short\n\n"
        + in_short(rows)
        + "\n"
        + tables(rows)
    )


def row_fields(row: Mapping[str, Any]) -> dict[str, Any]:
    """Of a row of `--json`: what was added for readers is left out."""
    return {name: value for name, value in row.items() if name != "advice"}


# --- The rows as Markdown tables, one for each stage.

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


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
