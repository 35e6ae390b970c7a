"""The result as one HTML file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from greenlane_tools.lab.accept.measuring import Accepting, Kernel, Limit, Row
from greenlane_tools.lab.accept.tables import Table, of_kind, tables, typical_burst
from greenlane_tools.page import blocks
from greenlane_tools.page.axis import LinearAxis
from greenlane_tools.page.charts.heat_map import heat_map
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.document import document
from greenlane_tools.page.html import Html, element, joined
from greenlane_tools.page.quantities import amount, share

__all__ = ["page"]


def page(rows: Sequence[Row], skipped: Mapping[str, str], environment: Mapping[str, object]) -> str:
    """The whole page.

    Args:
        rows: all of them.
        skipped: reason by server that is missing.
        environment: as in `--json`; printed at the foot.
    """
    header = [
        blocks.note("greenlane lab accept"),
        element("h1", "Who accepts the connection?"),
        *(blocks.paragraph(f"Without {name}: {reason}.", "warning") for name, reason in skipped.items()),
    ]
    shown = {table.name: table for table in tables(rows)}
    sections = [
        _shares(of_kind(rows, Accepting), shown.get("who accepts")),
        _limits(of_kind(rows, Limit), shown.get("what a limit counts")),
        _kernel(of_kind(rows, Kernel), shown.get("the kernel alone")),
        _method(environment),
    ]
    return document("greenlane lab accept", header, sections)


def _shares(rows: Sequence[Accepting], table: Table | None) -> Html:
    boots = [row for row in rows if row.boots]
    if table is None or not boots:
        return Html("")
    panels = {
        "a burst": _map(boots, "of a burst", typical_burst),
        "independent requests": _map(boots, "of all requests", lambda row: row.share_split),
        "kept connections": _map(boots, "of the requests on kept connections", lambda row: row.kept_split),
    }
    return blocks.section(
        "Share of each worker",
        blocks.tabs("shares", panels),
        _table(table),
        about="Rows are contenders, columns their workers in the order of their start (a burst: most first). "
        + table.about,
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


def _limits(rows: Sequence[Limit], table: Table | None) -> Html:
    if table is None:
        return Html("")
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
    return blocks.section(
        "What a limit counts",
        _table(table),
        blocks.tabs("limits", panels) if panels else "",
        about=table.about,
    )


def _kernel(rows: Sequence[Kernel], table: Table | None) -> Html:
    if table is None:
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
    return blocks.section("The kernel alone", blocks.wide(drawing), _table(table), about=table.about)


def _table(table: Table) -> Html:
    rows = [blocks.Row([line[column] for column in table.columns]) for line in table.lines]
    return joined([blocks.table(table.columns, rows, table.name, names=3), *map(blocks.note, table.notes)])


def _method(environment: Mapping[str, object]) -> Html:
    text = json.dumps(environment, indent=1, default=str)
    return blocks.section(
        "How it was measured",
        blocks.details("Environment", element("pre", element("code", text), class_="wide")),
        about="Each server in a virtual environment of its own on loopback, one at a time. Shares: an open loop of "
        "independent requests, each 5 ms of CPU and 20 ms of waiting on a connection of its own. Bursts: as many "
        "connections at one instant. Kept: a few clients that keep their connections and ask together. Listeners are "
        "counted in /proc/net. What it does not show: a network, a proxy, hours; and single runs vary: look at what "
        "changes by a multiple.",
    )
