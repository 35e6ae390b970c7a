"""Who made whom wait, and the culprits' code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from greenlane_tools.page.blocks import Row, details, note, section, table, wide
from greenlane_tools.page.charts.flame_graph import flame_graph
from greenlane_tools.page.charts.heat_map import heat_map
from greenlane_tools.page.html import Html, joined
from greenlane_tools.page.quantities import count, duration, factor, share
from greenlane_tools.report.culprits import CulpritCode, by_function, by_work, job_cpu, stacks_of
from greenlane_tools.report.own import spent
from greenlane_tools.report.split import named
from greenlane_tools.report.study import ReportStudy
from greenlane_tools.report.text import own_rows, turns_rows
from greenlane_tools.report.views.time import shortened

__all__ = ["blame_view", "culprits_view", "own_view"]

_SIDE = 10


def blame_view(study: ReportStudy) -> Html:
    """The section."""
    if not study.matrix.whole_ns:
        return _turns(study)
    drawn = study.matrix.cut(_SIDE)
    found, more = shortened(sorted(study.recording.blame, key=lambda row: -row.ns))
    rows = [
        Row(
            [
                row.victim,
                row.culprit + (f", phase {row.phase}" if row.phase >= 0 else ""),
                study.places[row.culprit].place if row.culprit in study.places else "-",
                named(row.kind),
                duration(row.ns),
                share(row.ns / max(1, study.matrix.by_victim[row.victim])),
                count(row.waits),
                count(row.slices),
                duration(row.longest_ns),
            ]
        )
        for row in found
    ]
    heads = ["who waited", "for whom", "where", "wait", "time", "of its wait", "waits", "slices", "longest slice"]
    return section(
        "Who made whom wait",
        wide(heat_map(drawn.victims, drawn.culprits, drawn.cells, "waiting by victim (rows) and culprit (columns)")),
        details("All rows", table(heads, rows, "blame", names=3), more),
        _turns(study),
        about="Rows waited, columns ran meanwhile. A cell is the time that all jobs of the row together waited for the "
        "column.",
        name="blame",
    )


def _turns(study: ReportStudy) -> Html:
    if not study.turns:
        return Html("")
    chosen, more = shortened(study.turns)
    said = (
        "A route pays the time that its jobs waited for permits. It gains what others waited while it computed: "
        "without permits they would have had the core at the same time."
    )
    how = (
        " Express turns ran beside a longer one. Shared turns used their share of CPU (400 ms), then computed beside "
        "others. Charged phases were expected to be light, but were heavy. Skipped phases ran without a permit: a lock "
        "was held, the wait was too long, or the mode changed."
    )
    shown = [note(said + how if study.turns[0].turns else said), _plain(turns_rows(chosen), "turns")]
    return details("Turns for permits", joined(shown), more)


def culprits_view(study: ReportStudy) -> Html:
    """The section."""
    if not study.recording.stacks and not study.matrix.whole_ns:
        return Html("")
    return section(
        "The culprits' code",
        flame_graph(stacks_of(study.recording.stacks), "stacks of what ran while others waited"),
        _table("By kind of work", by_work(study.recording.stacks)),
        _table("By function", by_function(study.recording.stacks)),
        _routes(study),
        about="Where culprits were while others waited; the width is the waiting that they caused, not the CPU that "
        "they used. Click zooms.",
        name="culprits",
    )


def own_view(study: ReportStudy) -> Html:
    """The section."""
    if not study.routes:
        return Html("")
    recording = study.recording
    chosen, more = shortened(study.own)
    return section(
        "The jobs' own time",
        flame_graph(spent(study.routes, recording.own, recording.blame), "CPU, I/O and waiting by route", "spent"),
        details("Lines that jobs computed in", _plain(own_rows(chosen), "own lines", names=3), more) if chosen else "",
        about="All jobs of a route together: what they computed, by line of code where they were looked at (five times "
        "a second, in slices over 10 ms); what they were blocked on; and whom they waited for. Click zooms.",
        name="own",
    )


def _plain(rows: Sequence[Mapping[str, object]], caption: str, names: int = 1) -> Html:
    return table(list(rows[0]), [Row([str(cell) for cell in row.values()]) for row in rows], caption, names=names)


def _table(heading: str, found: Sequence[CulpritCode]) -> Html:
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


def _routes(study: ReportStudy) -> Html:
    if not study.matrix.whole_ns:
        return Html("")
    rows = []
    for split in study.routes:
        caused = study.matrix.by_culprit.get(split.route, 0)
        if caused:
            ratio = job_cpu(split.cpu_ns, caused)
            rows.append(
                (caused, Row([split.route, count(len(split.jobs)), duration(split.cpu_ns), duration(caused),
                              factor(ratio), duration(caused / len(split.jobs))]))
            )  # fmt: skip
    rows.sort(key=lambda item: -item[0])
    chosen, more = shortened([row for _, row in rows])
    heads = ["route", "jobs", "CPU", "made others wait", "by its CPU", "a job"]
    return joined([details("CPU and the waiting it caused, by route", table(heads, chosen, "cost by route"), more)])
