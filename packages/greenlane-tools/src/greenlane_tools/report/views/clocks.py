"""The handler's clock beside the arrival's: what a latency leaves out depends on where it starts."""

from __future__ import annotations

from greenlane_tools.page.axis import LogAxis
from greenlane_tools.page.blocks import Row, details, section, table, wide
from greenlane_tools.page.charts.whiskers import LEFT, RIGHT, Whisker, whiskers
from greenlane_tools.page.html import Html
from greenlane_tools.page.quantities import count, duration
from greenlane_tools.report.study import Study
from greenlane_tools.report.views.limits import shortened

__all__ = ["view"]

_DRAWN = 6


def view(study: Study) -> Html:
    """The section; empty when no clock but the handler's was read."""
    found = [each for each in study.clocks if each.clocks != ["handler"]]
    if not found:
        return Html("")
    groups: dict[str, list[Whisker]] = {}
    for each in found[:_DRAWN]:
        levels = {
            "handler": (each.handler_p50_ns, each.handler_p99_ns),
            "spawn": (each.spawn_p50_ns, each.spawn_p99_ns),
            "arrival": (each.arrival_p50_ns, each.arrival_p99_ns),
        }
        groups[each.route] = [
            Whisker(name, p50, p50, p99, f"{duration(p50)} / {duration(p99)}", "", name == "arrival")
            for name, (p50, p99) in levels.items()
            if p50 is not None and p99 is not None
        ]
    values = [row.low for rows in groups.values() for row in rows] + [
        row.high for rows in groups.values() for row in rows
    ]
    axis = LogAxis(max(1e3, min(values) * 0.9), max(values) * 1.1, LEFT, RIGHT)
    chosen, more = shortened(found)
    rows = [
        Row(
            [
                each.route,
                ", ".join(each.clocks),
                count(each.jobs),
                f"{duration(each.handler_p50_ns)} / {duration(each.handler_p99_ns)}",
                "-"
                if each.spawn_p99_ns is None
                else f"{duration(each.spawn_p50_ns or 0)} / {duration(each.spawn_p99_ns)}",
                f"{duration(each.arrival_p50_ns)} / {duration(each.arrival_p99_ns)}",
            ]
        )
        for each in chosen
    ]
    heads = ["route", "arrival read from", "jobs", "handler p50 / p99", "spawn p50 / p99", "arrival p50 / p99"]
    return section(
        "Which clock",
        wide(whiskers(groups, axis, "p50 and p99 by the clock that starts the latency", duration)),
        details("All routes", table(heads, rows, "clocks", names=2), more),
        about="p50 (dot) to p99 (end of the bar) of the same jobs. Handler: from the first instruction of the "
        "application, what its own metrics say. Arrival: from when the request was there, what clients feel.",
        name="clocks",
    )
