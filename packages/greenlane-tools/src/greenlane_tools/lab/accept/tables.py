"""Results as lines of text: the same cells on the terminal and on the page."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from greenlane_tools.lab.accept.measuring import Accepting, Kernel, Limit, Row
from greenlane_tools.page.quantities import duration, factor, share

__all__ = ["Table", "of_kind", "tables", "typical_burst"]


Kind = TypeVar("Kind", Accepting, Limit, Kernel)


class Table(NamedTuple):
    """A heading, what it says, and its lines by column."""

    name: str
    about: str
    columns: tuple[str, ...]
    lines: list[Mapping[str, str]]
    # Sentences below it.
    notes: tuple[str, ...] = ()


_ACCEPTING: Final = (
    "contender", "socket", "options", "listeners", "share by worker", "busiest", "burst of {size}", "at once",
    "last of it", "{kept} kept",
)  # fmt: skip


def tables(rows: Sequence[Row]) -> list[Table]:
    """Those that have lines."""
    accepting, limits, kernel = of_kind(rows, Accepting), of_kind(rows, Limit), of_kind(rows, Kernel)
    size, kept = next(((row.burst_size, row.kept_connections) for row in accepting if row.boots), (20, 4))
    columns = tuple(name.format(size=size, kept=kept) for name in _ACCEPTING)
    found = [
        Table(
            "who accepts",
            "Splits are by worker in the order of their start. busiest: its share against an even one. at once: the "
            "most of a burst that one wake-up took. last of it: when the last of a burst was answered, median.",
            columns,
            [dict(zip(columns, _accepting(row), strict=True)) for row in accepting],
            tuple(f"{_named(row)} does not start: {row.said}" for row in accepting if not row.boots),
        ),
        Table(
            "what a limit counts",
            "One worker, 12 clients at one instant, each request 50 ms of waiting; clients keep their connections. "
            "lost: refused (503), or not answered while the run lasted.",
            ("contender", "version", "options", "answered after (s)", "lost"),
            [_limit(row) for row in limits],
        ),
        Table(
            "the kernel alone",
            "Connections one after another to waiting processes, in fork order. Depends on the kernel.",
            ("mechanism", "listeners", "connections", "busiest"),
            [_kernel(row) for row in kernel],
        ),
    ]
    return [table for table in found if table.lines]


def of_kind(rows: Sequence[Row], kind: type[Kind]) -> list[Kind]:
    """Rows of one table."""
    return [row for row in rows if isinstance(row, kind)]


def typical_burst(row: Accepting) -> list[int]:
    """The burst whose busiest worker took the median number, most first."""
    ordered = sorted((sorted(split, reverse=True) for split in row.burst_split), key=lambda split: split[:1])
    return ordered[len(ordered) // 2] if ordered else []


def _accepting(row: Accepting) -> list[str]:
    head = [_server(row), row.socket_family, row.options or "-"]
    if not row.boots:
        return [*head, "no start", *["-"] * 6]
    once = "-" if row.accepted_at_once is None else str(row.accepted_at_once)
    last = "-" if row.burst_last_ms is None else duration(row.burst_last_ms * 1e6)
    return [
        *head, str(row.listeners), _split(row.share_split), factor(row.share_max_ratio or 0),
        _split(typical_burst(row)), once, last, _split(row.kept_split),
    ]  # fmt: skip


def _named(row: Accepting) -> str:
    return " ".join(filter(None, [_server(row), row.socket_family, row.options]))


def _server(row: Accepting) -> str:
    return row.contender if row.version in row.contender else f"{row.contender} {row.version}"


def _limit(row: Limit) -> Mapping[str, str]:
    waves = _waves(row.answered_s)
    return {
        "contender": row.contender,
        "version": row.version,
        "options": row.options,
        "answered after (s)": ", ".join(f"{count} × {at:.2f}" for at, count in waves),
        "lost": str(row.lost),
    }


def _waves(answered_s: Sequence[float]) -> list[tuple[float, int]]:
    """Answers within 0.3 s of the one before belong together: (median, count)."""
    waves: list[list[float]] = []
    for at in answered_s:
        if waves and at - waves[-1][-1] < 0.3:
            waves[-1].append(at)
        else:
            waves.append([at])
    return [(statistics.median(wave), len(wave)) for wave in waves]


def _kernel(row: Kernel) -> Mapping[str, str]:
    return {
        "mechanism": row.mechanism,
        "listeners": str(row.listeners),
        "connections": _split(row.split),
        "busiest": share(row.share_max_frac),
    }


def _split(counts: Sequence[int]) -> str:
    return "/".join(map(str, counts))
