"""Culprits' code: the flame graph, functions, and the small costs that hide in libraries."""

from __future__ import annotations

from collections.abc import Sequence

from greenlane_tools.page.blocks import Row, details, section, table
from greenlane_tools.page.charts.flame_graph import flame_graph
from greenlane_tools.page.html import Html, joined
from greenlane_tools.page.quantities import count, duration, factor, share
from greenlane_tools.report import costs
from greenlane_tools.report.folded import stacks_of
from greenlane_tools.report.study import Study
from greenlane_tools.report.views.limits import shortened

__all__ = ["view"]


def view(study: Study) -> Html:
    """The section."""
    if not study.recording.stacks and not study.matrix.whole_ns:
        return Html("")
    return section(
        "The culprits' code",
        flame_graph(stacks_of(study.recording.stacks), "stacks of who ran while others waited"),
        _table("By kind of work", costs.by_work(study.recording.stacks)),
        _table("By function", costs.by_function(study.recording.stacks)),
        _routes(study),
        about="Where culprits were while others waited; the width is the waiting that they caused, not the CPU that "
        "they used. Click zooms.",
        name="culprits",
    )


def _table(heading: str, found: Sequence[costs.Cost]) -> Html:
    if not found:
        return Html("")
    chosen, more = shortened(found)
    rows = [
        Row([each.name, each.place or "-", duration(each.lateness_ns), share(each.lateness_frac),
             count(each.looks),
             ", ".join(each.culprits[:2]) + (f" and {len(each.culprits) - 2} more" if len(each.culprits) > 2 else "")])
        for each in chosen
    ]  # fmt: skip
    heads = [heading, "where most", "made others wait", "of all such", "seen", "done for"]
    return joined([details(heading, table(heads, rows, heading, names=2), more)])


def _routes(study: Study) -> Html:
    if not study.matrix.whole_ns:
        return Html("")
    rows = []
    for split in study.routes:
        caused = study.matrix.by_culprit.get(split.route, 0)
        if caused:
            ratio = costs.job_cpu(split.cpu_ns, caused)
            rows.append(
                (caused, Row([split.route, count(len(split.jobs)), duration(split.cpu_ns), duration(caused),
                              factor(ratio), duration(caused / len(split.jobs))]))
            )  # fmt: skip
    rows.sort(key=lambda item: -item[0])
    chosen, more = shortened([row for _, row in rows])
    heads = ["route", "jobs", "CPU", "made others wait", "by its CPU", "a job"]
    return joined([details("CPU and the waiting it caused, by route", table(heads, chosen, "cost by route"), more)])
