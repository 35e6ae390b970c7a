"""What is shown of the rows: the same tables on the terminal and on the page, and the page's drawings."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Final, TypeVar

from greenlane_tools.lab.accept.measuring import Accepting, Kernel, Limit, Row
from greenlane_tools.lab.experiment.result import Result, Table
from greenlane_tools.page import blocks
from greenlane_tools.page.axis import LinearAxis
from greenlane_tools.page.charts.heat_map import heat_map
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import amount, duration, factor, share

__all__ = ["shown", "tables", "typical_burst"]

Kind = TypeVar("Kind", Accepting, Limit, Kernel)

_ACCEPTING: Final = (
    "contender", "socket", "options", "listeners", "share by worker", "busiest", "burst of {size}", "at once",
    "last of it", "{kept} kept",
)  # fmt: skip


def shown(rows: Sequence[Row], skipped: Mapping[str, str], environment: Mapping[str, object]) -> Result:
    """All that is said.

    Args:
        skipped: reason by server that is missing.
    """
    return Result(
        "lab.accept", "Who accepts the connection?", [asdict(row) for row in rows], tables(rows), environment,
        lead="Shares of connections by worker, server, version, socket and option.",
        warnings=[f"without {name}: {reason}" for name, reason in skipped.items()],
        figures=[
            _shares(_of_kind(rows, Accepting)), _answered(_of_kind(rows, Limit)), _processes(_of_kind(rows, Kernel))
        ],
        method="Each server in a virtual environment of its own on loopback, one at a time. Shares: an open loop of "
        "independent requests, each 5 ms of CPU and 20 ms of waiting on a connection of its own. Bursts: as many "
        "connections at one instant. Kept: a few clients that keep their connections and ask together. Listeners are "
        "counted in /proc/net. What it does not show: a network, a proxy, hours; and single runs vary: look at what "
        "changes by a multiple.",
    )  # fmt: skip


def tables(rows: Sequence[Row]) -> list[Table]:
    """Those that have lines."""
    accepting, limits, kernel = _of_kind(rows, Accepting), _of_kind(rows, Limit), _of_kind(rows, Kernel)
    size, kept = next(((row.burst_size, row.kept_connections) for row in accepting if row.boots), (20, 4))
    columns = tuple(name.format(size=size, kept=kept) for name in _ACCEPTING)
    found = [
        Table(
            "Who accepts",
            [dict(zip(columns, _accepting(row), strict=True)) for row in accepting],
            "Splits are by worker in the order of their start. busiest: its share against an even one. at once: the "
            "most of a burst that one wake-up took. last of it: when the last of a burst was answered, median.",
            tuple(f"{_named(row)} does not start: {row.said}" for row in accepting if not row.boots),
            names=3,
        ),
        Table(
            "What a limit counts",
            [_limit(row) for row in limits],
            "One worker, 12 clients at one instant, each request 50 ms of waiting; clients keep their connections. "
            "lost: refused (503), or not answered while the run lasted.",
            names=3,
        ),
        Table(
            "The kernel alone",
            [_kernel(row) for row in kernel],
            "Connections one after another to waiting processes, in fork order. Depends on the kernel.",
        ),
    ]
    return [table for table in found if table.rows]


def _of_kind(rows: Sequence[Row], kind: type[Kind]) -> list[Kind]:
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


def _shares(rows: Sequence[Accepting]) -> Html:
    boots = [row for row in rows if row.boots]
    if not boots:
        return Html("")
    panels = {
        "a burst": _map(boots, "of a burst", typical_burst),
        "independent requests": _map(boots, "of all requests", lambda row: row.share_split),
        "kept connections": _map(boots, "of the requests on kept connections", lambda row: row.kept_split),
    }
    return blocks.section(
        "Share of each worker",
        blocks.tabs("shares", panels),
        about="Rows are contenders, columns their workers in the order of their start (a burst: most first).",
    )


def _map(rows: Sequence[Accepting], what: str, split: Callable[[Accepting], list[int]]) -> Html:
    names = [" ".join(filter(None, [row.contender, row.socket_family, row.options])) for row in rows]
    columns = [f"worker {number + 1}" for number in range(max(row.workers for row in rows))]
    cells = {
        (name, column): count / sum(split(row))
        for name, row in zip(names, rows, strict=True)
        for column, count in zip(columns, split(row), strict=False)
        if sum(split(row))
    }
    return blocks.wide(
        heat_map(
            names, columns, cells, f"share {what} by contender and worker", share,
            lambda row, column, value, _: f"{row}: {column} took {value} {what}",
        )
    )  # fmt: skip


def _answered(rows: Sequence[Limit]) -> Html:
    high = max((row.answered_s[-1] for row in rows if row.answered_s), default=1.0)
    groups = {
        f"{row.contender} {row.options}": [
            Whisker(f"client {number + 1}", 0.0, at, at, f"{at:.2f} s") for number, at in enumerate(row.answered_s)
        ]
        for row in rows
    }
    axis = LinearAxis(0, high, LEFT, RIGHT)
    title = "when each of twelve clients was answered"
    panels = {
        name: blocks.wide(whiskers({"": bars}, axis, f"{title}: {name}", lambda at: f"{amount(at)} s"))
        for name, bars in groups.items()
        if bars
    }
    if not panels:
        return Html("")
    return blocks.section("When each of twelve clients was answered", blocks.tabs("limits", panels))


def _processes(rows: Sequence[Kernel]) -> Html:
    if not rows:
        return Html("")
    columns = [f"process {number + 1}" for number in range(max(row.processes for row in rows))]
    cells = {
        (row.mechanism, column): count / row.connections
        for row in rows
        for column, count in zip(columns, row.split, strict=True)
    }
    drawing = heat_map(
        [row.mechanism for row in rows], columns, cells, "share of connections by mechanism and process", share,
        lambda row, column, value, _: f"{row}: {column} took {value}",
    )  # fmt: skip
    return blocks.section("Share of each process, without a server", blocks.wide(drawing))
